"""One handler at work: asks for as many deliveries as there are free hands, keeps them, answers them."""

from __future__ import annotations

import logging
import random
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Callable, Mapping

from .client import Away, Client, Lost, Refused
from .handler import Handler, Outcome, Retry, said, wire

log = logging.getLogger("windlass")

DELIVERIES_MAX = 1_000
# Answers are taken together, so hands become free together: one request for all of them is worth a moment.
GATHER_SECONDS = 0.005
BACK_OFF_SECONDS = 0.1
BACK_OFF_SECONDS_MAX = 5.0
# How long a worker that ends tries to answer a server that is away.
DRAIN_SECONDS_MAX = 30.0
HEARTBEAT_SECONDS_MIN = 1.0


class Patience:
    """How long to wait before the next try: up to twice as long each time, and anywhere below, so that many workers
    do not come back together."""

    def __init__(self) -> None:
        self._ceiling = BACK_OFF_SECONDS

    def next(self, at_least: float = 0.0) -> float:
        self._ceiling = min(self._ceiling * 2, BACK_OFF_SECONDS_MAX)
        return at_least + random.uniform(0, self._ceiling)


class Stop:
    """Whether the process was told to end, and until when it tries to answer."""

    def __init__(self) -> None:
        self._told = threading.Event()
        self._answer_by = float("inf")

    def now(self) -> None:
        if not self._told.is_set():
            self._answer_by = time.monotonic() + DRAIN_SECONDS_MAX
            self._told.set()

    def wait(self, seconds: float) -> None:
        self._told.wait(seconds)

    @property
    def is_set(self) -> bool:
        return self._told.is_set()

    @property
    def is_over(self) -> bool:
        return time.monotonic() > self._answer_by


class Flight:
    """A delivery that is being handled."""

    def __init__(self, item: Mapping[str, Any], beat_every: float) -> None:
        self.item = item
        self.lost = threading.Event()
        self.beating = threading.Lock()
        self.is_answered = False
        self.beat_every = beat_every
        self.beat_at = time.monotonic() + beat_every


class Lane:
    def __init__(self, client: Client, handler: Handler, stop: Stop, declare: Callable[[Handler], bool]) -> None:
        self._client = client
        self._handler = handler
        self._stop = stop
        self._declare = declare
        self._flights: dict[str, Flight] = {}
        self._landed = threading.Event()

    def start(self, concurrency: int, lease_seconds: int, poll_seconds: int) -> threading.Thread:
        """Begins. The thread it answers ends once the worker is told to and everything is answered."""
        self._concurrency = concurrency
        self._lease_seconds = lease_seconds
        self._poll_seconds = poll_seconds
        self._hands = threading.Semaphore(concurrency)
        threading.Thread(target=self._beat, name=f"{self._handler.name} heartbeats", daemon=True).start()
        thread = threading.Thread(target=self._work, name=self._handler.name, daemon=True)
        thread.start()
        return thread

    def _work(self) -> None:
        patience = Patience()
        with ThreadPoolExecutor(self._concurrency, self._handler.name) as pool:
            while not self._stop.is_set:
                free = self._free_hands()
                if not free:
                    continue
                items = []
                try:
                    items = self._poll(free)
                    patience = Patience()
                except Away as error:
                    log.warning("worker %s: the server is away: %s", self._handler.name, error)
                    self._stop.wait(patience.next(error.retry_after))
                except Refused as error:
                    self._refused(error, patience)
                for item in items:
                    pool.submit(self._handle, item)
                if free > len(items):
                    self._hands.release(free - len(items))
        self._landed.set()

    def _free_hands(self) -> int:
        """Takes all that are free, waiting a moment for the first and for those that are free soon after."""
        if not self._hands.acquire(blocking=False):
            if not self._hands.acquire(timeout=0.2):
                return 0
            time.sleep(GATHER_SECONDS)
        free = 1
        while free < DELIVERIES_MAX and self._hands.acquire(blocking=False):
            free += 1
        return free

    def _poll(self, most: int) -> list[dict[str, Any]]:
        body = {"max": most, "wait_seconds": self._poll_seconds}
        path = f"/workers/{self._handler.name}/poll"
        items: list[dict[str, Any]] = self._client.request("POST", path, body, timeout=self._poll_seconds + 30)["items"]
        return items

    def _refused(self, error: Refused, patience: Patience) -> None:
        log.error("worker %s cannot ask for deliveries: %s", self._handler.name, error)
        self._stop.wait(patience.next())
        if error.status == 404:
            try:
                self._declare(self._handler)
            except Refused as again:
                log.error("worker %s cannot be declared: %s", self._handler.name, again)

    def _handle(self, item: Mapping[str, Any]) -> None:
        flight = Flight(item, self._lease_seconds / 3)
        self._flights[item["id"]] = flight
        try:
            self._settle(flight, self._handler.outcomes(item, flight.lost))
        except Exception:
            log.exception("worker %s: delivery %s is left to come again", self._handler.name, item["id"])
        finally:
            # Another attempt at the same delivery may have begun here meanwhile.
            if self._flights.get(item["id"]) is flight:
                del self._flights[item["id"]]
            self._hands.release()

    def _settle(self, flight: Flight, outcomes: list[Outcome]) -> None:
        for outcome in outcomes:
            if isinstance(outcome, Exception):
                attempt, name = flight.item["attempt"], self._handler.name
                log.warning("worker %s: attempt %d failed: %s", name, attempt, said(outcome), exc_info=outcome)
        # A heartbeat that overtook the answer would change when a failed one comes again.
        with flight.beating:
            flight.is_answered = True
        try:
            self._answer(flight, *answer_of(outcomes))
        except Lost:
            log.warning("worker %s: delivery %s is somebody else's", self._handler.name, flight.item["id"])
        except (Refused, TypeError, ValueError) as error:
            # What the handler answered cannot be taken: that is a failure of the attempt, and counts as one.
            failure: Outcome = Retry(f"the answer cannot be taken: {said(error)}")
            try:
                self._answer(flight, "complete", {"results": [wire(failure) for _ in outcomes]})
            except Lost:
                pass

    def _answer(self, flight: Flight, verb: str, body: Mapping[str, Any]) -> None:
        """Answers, however long the server is away: it may still be ours when it comes back."""
        patience = Patience()
        path = f"/deliveries/{flight.item['id']}/{verb}"
        while True:
            try:
                self._client.request("POST", path, {"attempt": flight.item["attempt"], **body})
                return
            except Away as error:
                if self._stop.is_over:
                    raise
                log.warning("worker %s: no answer taken yet: %s", self._handler.name, error)
                time.sleep(patience.next(error.retry_after))

    def _beat(self) -> None:
        """Says of every delivery that takes long that it is still being handled."""
        while not self._landed.wait(self._lease_seconds / 6):
            for flight in list(self._flights.values()):
                if flight.beat_at <= time.monotonic():
                    with flight.beating:
                        self._beat_one(flight)

    def _beat_one(self, flight: Flight) -> None:
        if flight.is_answered or flight.lost.is_set():
            return
        body = {"attempt": flight.item["attempt"], "seconds": self._lease_seconds}
        timeout = max(self._lease_seconds / 6, HEARTBEAT_SECONDS_MIN)
        try:
            self._client.request("POST", f"/deliveries/{flight.item['id']}/heartbeat", body, timeout=timeout)
            flight.beat_at = time.monotonic() + flight.beat_every
        except Lost:
            flight.lost.set()
        except (Away, Refused) as error:
            log.warning("worker %s: a heartbeat was not heard: %s", self._handler.name, error)


def answer_of(outcomes: list[Outcome]) -> tuple[str, dict[str, Any]]:
    """What to say, and how: one event is done or failed, several are answered one by one."""
    if len(outcomes) == 1:
        return ("fail" if isinstance(outcomes[0], Exception) else "complete"), wire(outcomes[0])
    return "complete", ({"results": [wire(outcome) for outcome in outcomes]} if outcomes else {})
