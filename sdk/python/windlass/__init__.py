"""Workers for events of Windlass: a function, a name, and the types of events it wants."""

from .client import Away, Client, Lost, Refused
from .handler import (
    Debounce,
    Delivery,
    Emit,
    Fatal,
    Handler,
    Move,
    Rate,
    Retry,
    Schedule,
    Terminal,
    Watermark,
    batch_handler,
    handler,
)
from .worker import Worker

__all__ = [
    "Away",
    "Client",
    "Debounce",
    "Delivery",
    "Emit",
    "Fatal",
    "Handler",
    "Lost",
    "Move",
    "Rate",
    "Refused",
    "Retry",
    "Schedule",
    "Terminal",
    "Watermark",
    "Worker",
    "batch_handler",
    "handler",
]
