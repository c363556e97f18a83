"""Workers for events of Windlass: a function, a name, and the types of events it wants."""

from .client import Away, Client, Lost, Refused
from .handler import Delivery, Emit, Fatal, Handler, Retry, batch_handler, handler
from .worker import Worker

__all__ = [
    "Away",
    "Client",
    "Delivery",
    "Emit",
    "Fatal",
    "Handler",
    "Lost",
    "Refused",
    "Retry",
    "Worker",
    "batch_handler",
    "handler",
]
