"""A process that works for handlers until it is told to end, and then finishes what it has begun."""

from __future__ import annotations

import logging
import signal
import threading
from typing import Any

from .client import Away, Client, Refused
from .handler import Handler
from .lane import Lane, Patience, Stop

log = logging.getLogger("windlass")

# How long one request waits for a delivery; a worker that ends waits for that request.
POLL_SECONDS = 10
LEASE_SECONDS = 60


class Worker:
    """Asks for deliveries of its handlers and answers them."""

    def __init__(self, client: Client, *, poll_seconds: int = POLL_SECONDS) -> None:
        self._client = client
        self._poll_seconds = poll_seconds
        self._handlers: list[Handler] = []
        self._stop = Stop()

    @classmethod
    def from_env(cls) -> Worker:
        """For the server and with the key that WINDLASS_URL and WINDLASS_KEY name."""
        return cls(Client.from_env())

    def add(self, handler: Handler) -> Worker:
        self._handlers.append(handler)
        return self

    def run(self, concurrency: int = 10) -> None:
        """Works, up to `concurrency` deliveries of each handler at once, until SIGTERM, SIGINT or `stop`.

        Returns once everything that was begun is answered. Raises `Refused` if a handler cannot be declared.
        """
        if concurrency < 1 or not self._handlers:
            raise ValueError("a worker needs a handler and a concurrency of at least 1")
        before = self._heed_signals()
        try:
            lanes = []
            for handler in self._handlers:
                lease_seconds = self._declare(handler)
                if lease_seconds is not None:
                    lane = Lane(self._client, handler, self._stop, lambda one: self._declare(one) is not None)
                    lanes.append(lane.start(concurrency, lease_seconds, self._poll_seconds))
            for thread in lanes:
                thread.join()
        finally:
            self._stop.now()
            self._client.close()
            for number, was in before.items():
                signal.signal(number, was)

    def stop(self) -> None:
        """Tells `run` to finish what it has begun and return."""
        self._stop.now()

    def _heed_signals(self) -> dict[signal.Signals, Any]:
        if threading.current_thread() is not threading.main_thread():
            return {}
        before: dict[signal.Signals, Any] = {}

        def told(number: int, _frame: Any) -> None:
            # The second one ends the process as usual. A handler interrupts the very thread that may hold the lock
            # that `now` needs, so another thread takes it.
            signal.signal(number, signal.SIG_DFL)
            threading.Thread(target=self._stop.now).start()

        for number in (signal.SIGTERM, signal.SIGINT):
            before[number] = signal.signal(number, told)
        return before

    def _declare(self, handler: Handler) -> int | None:
        """Answers the lease; None if the process ends before the server answers."""
        patience = Patience()
        while not self._stop.is_set:
            try:
                return self._declared(handler)
            except Away as error:
                log.warning("worker %s is not declared yet: %s", handler.name, error)
                self._stop.wait(patience.next(error.retry_after))
        return None

    def _declared(self, handler: Handler) -> int:
        try:
            worker = self._client.request("PUT", f"/workers/{handler.name}", dict(handler.declaration))
        except Refused as error:
            if error.status != 403:
                raise
            # The role `worker` handles what others have declared.
            known = self._client.request("GET", "/workers")["items"]
            found = [one for one in known if one["name"] == handler.name]
            if not found:
                raise
            worker = found[0]
        return int(worker.get("lease_seconds", LEASE_SECONDS))
