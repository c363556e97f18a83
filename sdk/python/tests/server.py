"""The real server, started in a folder of its own, and ended in the ways a process can end."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
import time
from typing import Any, Callable, Optional, TypeVar

from windlass import Client

T = TypeVar("T")

# How long anything may take on a slow, busy machine.
PATIENCE_SECONDS = 120.0
POLL_SECONDS = 0.02


class Server:
    def __init__(self) -> None:
        self._home = tempfile.TemporaryDirectory()
        self._port = "0"
        self.start()

    def start(self) -> None:
        """Starts it, the second time on the same address and data."""
        binary = os.environ.get("WINDLASS_BIN")
        if not binary:
            raise RuntimeError("WINDLASS_BIN names the server's binary; cargo build makes target/debug/windlass")
        home = self._home.name
        kept = {name: value for name, value in os.environ.items() if not name.startswith("WINDLASS_")}
        own = {"HOME": home, "XDG_CONFIG_HOME": f"{home}/config", "NO_COLOR": "1", "WINDLASS_LOG": "error"}
        self._process = subprocess.Popen(
            [os.path.abspath(binary), "up", "--port", self._port, "-o", "json"],
            cwd=home,
            env={**kept, **own},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
        )
        assert self._process.stdout
        said = json.loads(self._process.stdout.readline())
        self.url, self.key = said["url"], said["key"]
        self._port = self.url.rsplit(":", 1)[1].strip("/")
        self.client = Client(self.url, self.key)

    def kill(self) -> None:
        """As kill -9."""
        self.client.close()
        self._process.kill()
        self._process.wait()
        assert self._process.stdout
        self._process.stdout.close()

    def close(self) -> None:
        self.kill()
        self._home.cleanup()

    def dead_letters(self, worker: str) -> list[dict[str, Any]]:
        items: list[dict[str, Any]] = self.client.request("GET", f"/dead-letters?worker={worker}")["items"]
        return items


def until(found: Callable[[], Optional[T]]) -> T:
    """Looks again until there is something."""
    end = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < end:
        value = found()
        if value:
            return value
        time.sleep(POLL_SECONDS)
    raise TimeoutError("it did not become so in time")


def declared(server: Server, name: str) -> bool:
    return any(one["name"] == name for one in server.client.request("GET", "/workers")["items"])
