"""The three workers of the shop: each a name, the events it wants, and a function. None knows the others."""

from typing import Any, Dict

from windlass import Delivery, Emit, Fatal, Terminal, Worker, handler

Order = Dict[str, Any]


@handler("payments", "shop.payment.wanted", key_by="data.order", terminal=Terminal(mark_failed="shop.payment.refused"))
def payments(delivery: Delivery[Order]) -> Emit:
    """Takes the money. One order is paid once, however often it is asked for."""
    if delivery.data["cents"] > 100_000:
        raise Fatal("more than the card allows")
    receipt = f"r-{delivery.domain_key[:8]}"
    return Emit("shop.payment.taken", {"order": delivery.data["order"], "receipt": receipt}, delivery.subject)


@handler("parcels", "shop.parcel.wanted", order_by="subject", retry_base_ms=100)
def parcels(delivery: Delivery[Order]) -> Emit:
    """Packs what was ordered. The first attempt always finds nobody at the desk; the second works."""
    if delivery.attempt == 1:
        raise RuntimeError("nobody at the desk")
    return Emit("shop.parcel.sent", {"order": delivery.data["order"], "parcels": len(delivery.data["items"])})


@handler("mail", "shop.payment.refused", "shop.parcel.sent")
def mail(delivery: Delivery[Order]) -> Emit:
    """Tells the customer how it went."""
    said = {"shop.parcel.sent": "your parcel is on its way", "shop.payment.refused": "we could not take your money"}
    order = delivery.data.get("order") or delivery.data["data"]["order"]
    text = said[delivery.type]
    return Emit("shop.mail.sent", {"order": order, "text": text}, subject=order, once=f"{order}:{text}")


if __name__ == "__main__":
    Worker.from_env().add(payments).add(parcels).add(mail).run()
