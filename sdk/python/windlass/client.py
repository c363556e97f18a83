"""Talks to the server: one JSON request, one answer, and errors named for what the caller does about them."""

from __future__ import annotations

import http.client
import json
import os
import socket
import ssl
import urllib.parse
import uuid
from collections import deque
from typing import Any, Mapping, Optional

DEFAULT_URL = "http://127.0.0.1:8400"
REQUEST_SECONDS_MAX = 30.0
# Refusals that are about the moment, not about the request.
TRY_AGAIN = (408, 425, 429)
LOST = ("delivery-lost", "watermark-moved")


class Away(Exception):
    """The server does not answer, or not now: try again later."""

    def __init__(self, message: str, retry_after: float = 0.0) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class Refused(Exception):
    """The server answered and said no: the same request would be refused again."""

    def __init__(self, status: int, code: str, detail: str) -> None:
        super().__init__(f"{status} {code}: {detail}")
        self.status = status
        self.code = code
        self.detail = detail


class Lost(Refused):
    """The delivery is done, somebody else has it by now, or it comes again because a watermark was moved: drop it."""


class Client:
    """One server and one key. Threads may share it; connections are kept for the next request."""

    def __init__(self, url: str, key: str) -> None:
        parts = urllib.parse.urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"{url!r} is not an address such as {DEFAULT_URL}")
        if not key:
            raise ValueError("a key is needed; see WINDLASS_KEY")
        self._parts = parts
        self._host: str = parts.hostname
        self._headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
        self._tls = ssl.create_default_context() if parts.scheme == "https" else None
        self._idle: deque[http.client.HTTPConnection] = deque()

    @classmethod
    def from_env(cls) -> Client:
        """WINDLASS_URL and WINDLASS_KEY, as the command line reads them."""
        return cls(os.environ.get("WINDLASS_URL") or DEFAULT_URL, os.environ.get("WINDLASS_KEY", ""))

    def publish(self, *events: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Publishes CloudEvents in one request; `type` is needed, and `id` if publishing twice must count once."""
        whole = [{"specversion": "1.0", "id": str(uuid.uuid4()), "source": "sdk/python", **one} for one in events]
        headers = {"Content-Type": "application/cloudevents-batch+json"}
        items: list[dict[str, Any]] = self.request("POST", "/events", whole, headers=headers)["items"]
        return items

    def close(self) -> None:
        """Ends the connections that are kept; the next request makes a new one."""
        while self._idle:
            self._idle.pop().close()

    def request(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        timeout: float = REQUEST_SECONDS_MAX,
        headers: Optional[Mapping[str, str]] = None,
    ) -> Any:
        """Asks for a path under /api/v1, which is escaped here. Answers what the server said; None if nothing."""
        payload = None if body is None else json.dumps(body, allow_nan=False).encode()
        target = f"{self._parts.path.rstrip('/')}/api/v1{urllib.parse.quote(path, safe='/?&=%')}"
        answer, text = self._exchange(method, target, payload, {**self._headers, **(headers or {})}, timeout)
        try:
            said = json.loads(text) if text else None
        except ValueError:
            said = None
        if 200 <= answer.status < 300:
            return said
        problem: Mapping[str, Any] = said if isinstance(said, dict) else {}
        code, detail = str(problem.get("code", "")), str(problem.get("detail", answer.reason))
        if answer.status >= 500 or answer.status in TRY_AGAIN:
            after = answer.getheader("Retry-After") or ""
            raise Away(f"{answer.status} {code}: {detail}", float(after) if after.isdigit() else 0.0)
        raise (Lost if code in LOST else Refused)(answer.status, code, detail)

    def _exchange(
        self, method: str, target: str, payload: Optional[bytes], headers: Mapping[str, str], timeout: float
    ) -> tuple[http.client.HTTPResponse, bytes]:
        while True:
            kept, connection = self._connection(timeout)
            try:
                if connection.sock:
                    connection.sock.settimeout(timeout)
                connection.request(method, target, payload, dict(headers))
                answer = connection.getresponse()
                text = answer.read()
                if answer.will_close:
                    connection.close()
                else:
                    self._idle.append(connection)
                return answer, text
            except (OSError, http.client.HTTPException) as error:
                connection.close()
                # A kept connection may have ended since. Every request here may be made twice.
                if not kept or isinstance(error, (TimeoutError, socket.timeout)):
                    raise Away(f"{type(error).__name__}: {error}") from error

    def _connection(self, timeout: float) -> tuple[bool, http.client.HTTPConnection]:
        """One that was kept if there is any, and whether it was."""
        try:
            return True, self._idle.pop()
        except IndexError:
            port = self._parts.port
        if self._tls is None:
            return False, http.client.HTTPConnection(self._host, port, timeout=timeout)
        return False, http.client.HTTPSConnection(self._host, port, timeout=timeout, context=self._tls)
