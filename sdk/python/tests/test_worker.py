"""Workers against the real server."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Iterator, Optional, Sequence, Union
from contextlib import contextmanager

from windlass import (
    Client,
    Debounce,
    Delivery,
    Emit,
    Fatal,
    Handler,
    Move,
    Rate,
    Refused,
    Retry,
    Schedule,
    Terminal,
    Worker,
    batch_handler,
    handler,
)

from .server import PATIENCE_SECONDS, Server, declared, until

# Failures are what these tests are about: their log would hide the others.
logging.getLogger("windlass").setLevel(logging.CRITICAL)


@dataclass
class Order:
    id: str
    cents: int


@contextmanager
def working(server: Server, *handlers: Handler, concurrency: int = 4) -> Iterator[Worker]:
    """A worker that runs in a thread. It is declared when the block begins, and drained when it ends."""
    worker = Worker(Client(server.url, server.key), poll_seconds=1)
    for one in handlers:
        worker.add(one)
        # What is published before a worker is declared is not for it.
        server.client.request("PUT", f"/workers/{one.name}", dict(one.declaration))
    thread = threading.Thread(target=worker.run, args=(concurrency,), daemon=True)
    thread.start()
    try:
        yield worker
    finally:
        worker.stop()
        thread.join(PATIENCE_SECONDS)
        assert not thread.is_alive(), "it drains in time"


class WorkerTest(unittest.TestCase):
    server: Server

    @classmethod
    def setUpClass(cls) -> None:
        cls.server = Server()
        cls.addClassCleanup(cls.server.close)

    def test_one_domain_key_is_one_effect(self) -> None:
        keys: list[Optional[str]] = []
        sent: list[Delivery[Any]] = []

        terms = {"retry_factor": 3.0, "rate": Rate(1000), "terminal": Terminal(alert=True), "concurrency_max": 1}

        @handler("keyed", "keyed.asked", key_by="data.order", **terms)
        def keyed(delivery: Delivery[Any]) -> list[Emit]:
            keys.append(delivery.domain_key)
            return [Emit("keyed.sent", channel, once=f"o:{channel}") for channel in ("mail", "push", "mail")]

        @handler("keyed-sent", "keyed.sent")
        def count(delivery: Delivery[Any]) -> None:
            sent.append(delivery)

        with working(self.server, keyed, count):
            for number in range(3):
                self.server.client.publish({"type": "keyed.asked", "id": str(number), "data": {"order": "o"}})
            until(lambda: len(sent) == 2)
            self.server.client.publish({"type": "keyed.asked", "id": "later", "data": {"order": "p"}})
            until(lambda: len(keys) == 2)
        self.assertEqual(sorted(one.data for one in sent), ["mail", "push"])
        self.assertEqual(len(set(keys)), 2)

    def test_a_schedule_runs_and_moves_its_watermark(self) -> None:
        seen: list[Any] = []

        @handler("ticks", schedule=Schedule(every_seconds=1), watermarks=["count"], debounce=Debounce(10))
        def ticks(delivery: Delivery[Any]) -> Move:
            mark = delivery.watermarks["count"]
            seen.append((delivery.type, mark.value))
            return mark.to((mark.value or 0) + 1)

        with working(self.server, ticks):
            until(lambda: len(seen) >= 3)
        self.assertEqual(seen[:3], [("windlass.schedule.due", value) for value in (None, 1, 2)])
        self.server.client.request("DELETE", "/workers/ticks")

    def test_an_event_is_handled(self) -> None:
        seen: list[Delivery[Order]] = []

        @handler("one", "one.created", decode=lambda data: Order(**data))
        def one(delivery: Delivery[Order]) -> None:
            seen.append(delivery)

        with working(self.server, one):
            self.server.client.publish(
                {"type": "one.created", "subject": "o-1", "data": {"id": "o-1", "cents": 2**62}},
                {"type": "one.removed"},
            )
            until(lambda: seen)
        (delivery,) = seen
        self.assertEqual(delivery.data, Order("o-1", 2**62))
        self.assertEqual((delivery.type, delivery.subject, delivery.attempt), ("one.created", "o-1", 1))
        self.assertEqual(len(delivery.key), 64)

    def test_a_retry_has_the_same_key_and_the_next_attempt(self) -> None:
        seen: list[tuple[str, int]] = []

        @handler("again", "again.created", retry_base_ms=1)
        def again(delivery: Delivery[Any]) -> None:
            seen.append((delivery.key, delivery.attempt))
            if delivery.attempt == 1:
                raise Retry("not yet", after=0.5)
            if delivery.attempt == 2:
                raise RuntimeError("any other error is tried again too")

        with working(self.server, again):
            self.server.client.publish({"type": "again.created"})
            until(lambda: len(seen) == 3)
        self.assertEqual(seen, [(seen[0][0], attempt) for attempt in (1, 2, 3)])
        self.assertEqual(self.server.dead_letters("again"), [])

    def test_a_fatal_error_becomes_a_dead_letter(self) -> None:
        @handler("fatal", "fatal.created", decode=lambda data: int(data["cents"]))
        def fatal(delivery: Delivery[int]) -> None:
            raise Fatal("card declined")

        with working(self.server, fatal):
            self.server.client.publish({"type": "fatal.created", "data": {"cents": "1"}})
            (letter,) = until(lambda: self.server.dead_letters("fatal"))
            self.assertEqual((letter["detail"], letter["attempts"]), ("validation: card declined", 1))
            self.server.client.publish({"type": "fatal.created", "data": {}})
            newest, _ = until(lambda: letters if len(letters := self.server.dead_letters("fatal")) == 2 else None)
            self.assertIn("the data cannot be decoded: KeyError: 'cents'", newest["detail"])

    def test_attempts_that_are_used_up_make_a_dead_letter(self) -> None:
        @handler("used-up", "used-up.created", attempts_max=2, retry_base_ms=1)
        def used_up(delivery: Delivery[Any]) -> None:
            raise Retry("the bank is closed")

        with working(self.server, used_up):
            self.server.client.publish({"type": "used-up.created"})
            (letter,) = until(lambda: self.server.dead_letters("used-up"))
        self.assertEqual((letter["reason"], letter["attempts"]), ("retries-exhausted", 2))

    def test_of_a_batch_only_what_failed_comes_again(self) -> None:
        seen: list[list[tuple[int, int]]] = []

        @batch_handler("batch", "batch.created", batch_max=10, retry_base_ms=1)
        def batch(deliveries: Sequence[Delivery[int]]) -> Sequence[Union[None, Emit, Exception]]:
            seen.append([(delivery.data, delivery.attempt) for delivery in deliveries])
            odd = Emit("batch.odd")
            bad = [delivery.data == 1 and delivery.attempt == 1 for delivery in deliveries]
            return [Retry("not this one") if is_bad else odd for is_bad in bad]

        odds: list[str] = []

        @handler("odds", "batch.odd")
        def count(delivery: Delivery[Any]) -> None:
            odds.append(delivery.key)

        with working(self.server, batch, count):
            self.server.client.publish(*({"type": "batch.created", "data": number} for number in range(3)))
            until(lambda: len(odds) == 3)
        self.assertEqual(seen, [[(0, 1), (1, 1), (2, 1)], [(1, 2)]])
        self.assertEqual(len(set(odds)), 3)

    def test_what_is_emitted_reaches_another_worker(self) -> None:
        seen: list[Delivery[Any]] = []

        @handler("first", "chain.begun", order_by="subject")
        def first(delivery: Delivery[Any]) -> Iterator[Emit]:
            yield Emit("chain.ended", {"of": delivery.data}, subject=delivery.subject)

        @handler("second", "chain.ended")
        def second(delivery: Delivery[Any]) -> None:
            seen.append(delivery)

        with working(self.server, first, second):
            self.server.client.publish({"type": "chain.begun", "subject": "s", "data": [1]})
            until(lambda: seen)
        (delivery,) = seen
        self.assertEqual((delivery.data, delivery.subject), ({"of": [1]}, "s"))

    def test_a_handler_longer_than_its_lease_keeps_the_delivery(self) -> None:
        seen: list[int] = []
        ended = threading.Event()

        @handler("long", "long.created", lease_seconds=4)
        def long(delivery: Delivery[Any]) -> None:
            seen.append(delivery.attempt)
            time.sleep(9)
            self.assertFalse(delivery.is_lost)
            ended.set()

        with working(self.server, long):
            self.server.client.publish({"type": "long.created"})
            self.assertTrue(ended.wait(PATIENCE_SECONDS))
        self.assertEqual(seen, [1])

    def test_a_lost_delivery_is_dropped(self) -> None:
        seen: list[Any] = []

        @handler("lost", "lost.created", lease_seconds=1)
        def lost(delivery: Delivery[Any]) -> None:
            seen.append(delivery.data)
            if delivery.data == "first":
                # As if another had answered.
                self.server.client.request("POST", f"/deliveries/{delivery.id}/complete", {"attempt": 1})
                until(lambda: delivery.is_lost)

        with working(self.server, lost, concurrency=1):
            self.server.client.publish({"type": "lost.created", "data": "first"})
            until(lambda: seen)
            self.server.client.publish({"type": "lost.created", "data": "second"})
            until(lambda: len(seen) == 2)
        self.assertEqual(seen, ["first", "second"])

    def test_an_answer_that_cannot_be_taken_is_a_failed_attempt(self) -> None:
        @handler("bad", "bad.created", attempts_max=1)
        def bad(delivery: Delivery[str]) -> Emit:
            return Emit("bad.emitted", object()) if delivery.data == "object" else Emit("")

        with working(self.server, bad):
            self.server.client.publish({"type": "bad.created", "data": "object"}, {"type": "bad.created"})
            letters = until(lambda: letters if len(letters := self.server.dead_letters("bad")) == 2 else None)
        for letter in letters:
            self.assertIn("the answer cannot be taken", letter["detail"])

    def test_a_declaration_that_is_refused_is_an_error(self) -> None:
        nameless = handler("no such name!", "x")(lambda delivery: None)
        with self.assertRaises(Refused):
            Worker(self.server.client).add(nameless).run()

    def test_a_key_that_may_not_declare_handles_what_is_declared(self) -> None:
        made = self.server.client.request("POST", "/keys", {"name": "worker", "roles": ["worker"]})
        seen: list[Any] = []

        @handler("given", "given.created")
        def given(delivery: Delivery[Any]) -> None:
            seen.append(delivery.data)

        with self.assertRaises(Refused):
            Worker(Client(self.server.url, made["secret"])).add(given).run()
        self.server.client.request("PUT", "/workers/given", dict(given.declaration))
        self.server.client.publish({"type": "given.created", "data": 7})
        worker = Worker(Client(self.server.url, made["secret"]), poll_seconds=1).add(given)
        thread = threading.Thread(target=worker.run)
        thread.start()
        until(lambda: seen)
        worker.stop()
        thread.join(PATIENCE_SECONDS)
        self.assertEqual(seen, [7])

    def test_sigterm_drains(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            begun, ended = Path(folder, "begun"), Path(folder, "ended")
            script = f"""
from pathlib import Path
from time import sleep
from windlass import Worker, handler
@handler("drained", "drained.created")
def drained(delivery):
    Path({str(begun)!r}).touch()
    while not Path({str(ended)!r}).exists():
        sleep(0.02)
Worker.from_env().add(drained).run(concurrency=1)
"""
            settings = {"WINDLASS_URL": self.server.url, "WINDLASS_KEY": self.server.key}
            path = str(Path(__file__).parent.parent)
            process = subprocess.Popen(
                [sys.executable, "-c", script], env={**os.environ, **settings, "PYTHONPATH": path}
            )
            self.addCleanup(process.kill)
            until(lambda: declared(self.server, "drained"))
            (published,) = self.server.client.publish({"type": "drained.created"})
            until(begun.exists)
            process.send_signal(signal.SIGTERM)
            with self.assertRaises(subprocess.TimeoutExpired):
                process.wait(0.5)
            ended.touch()
            self.assertEqual(process.wait(PATIENCE_SECONDS), 0)
        self.assertFalse(published["replayed"])
        left = self.server.client.request("POST", "/workers/drained/poll", {"max": 1})
        self.assertEqual(left["items"], [])


class RestartTest(unittest.TestCase):
    def test_a_worker_goes_on_when_the_server_comes_back(self) -> None:
        server = Server()
        self.addCleanup(server.close)
        begun, back = threading.Event(), threading.Event()
        handled: list[tuple[Any, int]] = []
        emitted: list[Any] = []

        @handler("steady", "steady.created")
        def steady(delivery: Delivery[Any]) -> Optional[Emit]:
            handled.append((delivery.data, delivery.attempt))
            begun.set()
            back.wait(PATIENCE_SECONDS)
            return Emit("steady.done", delivery.data)

        @handler("after", "steady.done")
        def after(delivery: Delivery[Any]) -> None:
            emitted.append(delivery.data)

        with working(server, steady, after):
            server.client.publish({"type": "steady.created", "data": "before"})
            self.assertTrue(begun.wait(PATIENCE_SECONDS))
            server.kill()
            back.set()
            server.start()
            until(lambda: emitted)
            server.client.publish({"type": "steady.created", "data": "after"})
            until(lambda: len(emitted) == 2)
        self.assertEqual(emitted, ["before", "after"])
        self.assertEqual(handled, [("before", 1), ("after", 1)])


if __name__ == "__main__":
    unittest.main()
