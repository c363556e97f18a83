"""What a worker's author writes: a function over deliveries, and errors that say whether to try again."""

from __future__ import annotations

import math
import threading
from dataclasses import asdict, dataclass, field, is_dataclass
from typing import Any, Callable, Generic, Iterable, List, Literal, Mapping, Optional, Sequence, TypeVar, Union

T = TypeVar("T")

MESSAGE_BYTES_MAX = 4_096
RETRY_SECONDS_MAX = 86_400


class Retry(Exception):
    """The attempt failed: try again by the worker's policy, not before `after` seconds."""

    def __init__(
        self,
        message: str = "",
        *,
        after: Optional[float] = None,
        class_: Literal["transient", "rate-limited", "auth"] = "transient",
    ) -> None:
        super().__init__(message)
        self.after = after
        self.class_ = class_


class Fatal(Exception):
    """The attempt failed, and so would every other: it becomes a dead letter."""

    def __init__(self, message: str = "", *, class_: Literal["validation", "poison"] = "validation") -> None:
        super().__init__(message)
        self.class_ = class_


@dataclass(frozen=True)
class Emit:
    """An event that follows. It is published exactly when the delivery is done."""

    type: str
    data: Any = None
    subject: Optional[str] = None
    once: Optional[str] = None
    """Of this worker one event with the key is emitted, whatever deliveries they come from."""


@dataclass(frozen=True)
class Debounce:
    """Of events that follow each other closely the last is delivered: when `quiet_ms` no further one came, and at the
    latest `wait_max_ms` after the first. `by` is an attribute or a path; all events are one key without it."""

    quiet_ms: int
    wait_max_ms: Optional[int] = None
    by: Optional[str] = None


@dataclass(frozen=True)
class Rate:
    """How many events are handed out in so many seconds; those beyond it wait, and no attempt is counted."""

    max: int
    seconds: int = 1


@dataclass(frozen=True)
class Terminal:
    """What is emitted besides the dead letter when an event is given up: `windlass.worker.failed`, and events of the types
    given."""

    alert: bool = False
    mark_failed: Optional[str] = None
    compensate: Optional[str] = None


@dataclass(frozen=True)
class Schedule:
    """When a worker runs by itself: one of the first three. A run is an event of the type `windlass.schedule.due`."""

    cron: Optional[str] = None
    every_seconds: Optional[int] = None
    after_seconds: Optional[int] = None
    time_zone: Optional[str] = None
    missed: Optional[Literal["latest", "all", "skip", "window"]] = None
    window_seconds: Optional[int] = None


@dataclass(frozen=True)
class Watermark:
    """How far a worker has come."""

    name: str
    value: Any
    version: int

    def to(self, value: Any) -> Move:
        """Answered beside what is emitted, it moves the watermark on."""
        return Move(self.name, value, self.version)


@dataclass(frozen=True)
class Move:
    """A watermark that moves on, in the commit of what is emitted; if somebody else moved it the delivery comes again."""

    name: str
    value: Any
    version: int


@dataclass(frozen=True)
class Delivery(Generic[T]):
    """One event for one worker."""

    event: Mapping[str, Any]
    """The CloudEvent, whole."""
    data: T
    """What it carries, decoded."""
    key: str
    """The same on every attempt: give it to whatever must happen once."""
    attempt: int
    """1 on the first attempt."""
    id: str = ""
    """Of the delivery; those of one batch have the same."""
    domain_key: Optional[str] = None
    """The same for all events with the same value at `key_by`, if the worker has that."""
    watermarks: Mapping[str, Watermark] = field(default_factory=dict)
    """Those that the worker names."""
    traceparent: Optional[str] = None
    """The W3C trace context of this delivery: give it to whatever you call."""
    _lost: threading.Event = field(default_factory=threading.Event, repr=False, compare=False)

    @property
    def type(self) -> str:
        return str(self.event["type"])

    @property
    def subject(self) -> Optional[str]:
        return self.event.get("subject")

    @property
    def is_lost(self) -> bool:
        """True once somebody else may have it: a long handler looks here and stops."""
        return self._lost.is_set()


Emitted = Union[None, Emit, Move, Iterable[Union[Emit, Move]]]
Outcome = Union[List[Union[Emit, Move]], Exception]
Each = Callable[[Delivery[T]], Emitted]
Batch = Callable[[Sequence[Delivery[T]]], Optional[Sequence[Union[Emitted, Exception]]]]


@dataclass(frozen=True)
class Handler:
    """A named function and what is declared of it."""

    name: str
    declaration: Mapping[str, Any]
    decode: Callable[[Any], Any]
    handle: Callable[[Sequence[Delivery[Any]]], Sequence[Outcome]]

    def outcomes(self, item: Mapping[str, Any], lost: threading.Event) -> list[Outcome]:
        """Hands over what was polled. There is an outcome for every event, whatever the function does."""
        outcomes: list[Outcome] = []
        deliveries, places = [], []
        marks = {one["name"]: Watermark(one["name"], one["value"], one["version"]) for one in item.get("watermarks", ())}
        domain_keys = item.get("domain_keys") or [None] * len(item["keys"])
        traces = item.get("traceparents") or [None] * len(item["keys"])
        for event, key, domain_key, trace in zip(item["events"], item["keys"], domain_keys, traces):
            try:
                data = self.decode(event.get("data"))
            except Exception as error:
                outcomes.append(Fatal(f"the data cannot be decoded: {said(error)}"))
            else:
                deliveries.append(Delivery(event, data, key, item["attempt"], item["id"], domain_key, marks, trace, lost))
                places.append(len(outcomes))
                outcomes.append([])
        for place, outcome in zip(places, self._attempt(deliveries) if deliveries else []):
            outcomes[place] = outcome
        return outcomes

    def _attempt(self, deliveries: Sequence[Delivery[Any]]) -> Sequence[Outcome]:
        try:
            return self.handle(deliveries)
        except Exception as error:
            return [error] * len(deliveries)


def handler(
    name: str,
    *types: str,
    decode: Optional[Callable[[Any], T]] = None,
    attempts_max: Optional[int] = None,
    retry_base_ms: Optional[int] = None,
    retry_factor: Optional[float] = None,
    retry_cap_ms: Optional[int] = None,
    order_by: Optional[str] = None,
    key_by: Optional[str] = None,
    lease_seconds: Optional[int] = None,
    concurrency_max: Optional[int] = None,
    debounce: Optional[Debounce] = None,
    rate: Optional[Rate] = None,
    terminal: Optional[Terminal] = None,
    schedule: Optional[Schedule] = None,
    watermarks: Optional[Sequence[str]] = None,
    ignore_own: Optional[bool] = None,
) -> Callable[[Each[T]], Handler]:
    """Makes a worker of a function over one delivery.

    `types` are types of events; one that ends with `*` is the beginning of a type. `decode` makes the function's
    own type of the event's data; data it refuses becomes a dead letter. The server has a default for the others.
    """

    declaration = _declaration(
        types=list(types),
        attempts_max=attempts_max,
        retry_base_ms=retry_base_ms,
        retry_factor=retry_factor,
        retry_cap_ms=retry_cap_ms,
        order_by=order_by,
        key_by=key_by,
        lease_seconds=lease_seconds,
        concurrency_max=concurrency_max,
        debounce=debounce,
        rate=rate,
        terminal=terminal,
        schedule=schedule,
        watermarks=list(watermarks) if watermarks else None,
        ignore_own=ignore_own or None,
    )

    def each(function: Each[T]) -> Handler:
        def one(delivery: Delivery[T]) -> Outcome:
            try:
                return _emits(function(delivery))
            except Exception as error:
                return error

        return Handler(name, declaration, decode or _as_it_is, lambda deliveries: list(map(one, deliveries)))

    return each


def batch_handler(
    name: str,
    *types: str,
    batch_max: int,
    decode: Optional[Callable[[Any], T]] = None,
    attempts_max: Optional[int] = None,
    retry_base_ms: Optional[int] = None,
    retry_factor: Optional[float] = None,
    retry_cap_ms: Optional[int] = None,
    order_by: Optional[str] = None,
    key_by: Optional[str] = None,
    lease_seconds: Optional[int] = None,
    concurrency_max: Optional[int] = None,
    debounce: Optional[Debounce] = None,
    rate: Optional[Rate] = None,
    terminal: Optional[Terminal] = None,
    schedule: Optional[Schedule] = None,
    watermarks: Optional[Sequence[str]] = None,
    ignore_own: Optional[bool] = None,
) -> Callable[[Batch[T]], Handler]:
    """Makes a worker of a function over several deliveries.

    The function answers None if all are done, or a list with one entry for each: what it emits, or the error that it
    failed with. If it raises, all failed.
    """

    declaration = _declaration(
        batch_max=batch_max,
        types=list(types),
        attempts_max=attempts_max,
        retry_base_ms=retry_base_ms,
        retry_factor=retry_factor,
        retry_cap_ms=retry_cap_ms,
        order_by=order_by,
        key_by=key_by,
        lease_seconds=lease_seconds,
        concurrency_max=concurrency_max,
        debounce=debounce,
        rate=rate,
        terminal=terminal,
        schedule=schedule,
        watermarks=list(watermarks) if watermarks else None,
        ignore_own=ignore_own or None,
    )

    def all_of(function: Batch[T]) -> Handler:
        def handle(deliveries: Sequence[Delivery[T]]) -> Sequence[Outcome]:
            answers = function(deliveries)
            if answers is None:
                return [[] for _ in deliveries]
            if len(answers) != len(deliveries):
                raise ValueError(f"the worker answered {len(answers)} of {len(deliveries)} deliveries")
            return [one if isinstance(one, Exception) else _emits(one) for one in answers]

        return Handler(name, declaration, decode or _as_it_is, handle)

    return all_of


def _declaration(**given: Any) -> dict[str, Any]:
    declared = {}
    for name, value in given.items():
        if is_dataclass(value) and not isinstance(value, type):
            declared[name] = _declaration(**asdict(value))
        elif value is not None:
            declared[name] = value
    return declared


def _as_it_is(data: Any) -> Any:
    return data


def _emits(emitted: Emitted) -> list[Union[Emit, Move]]:
    if emitted is None:
        return []
    emits = [emitted] if isinstance(emitted, (Emit, Move)) else list(emitted)
    if not all(isinstance(one, (Emit, Move)) for one in emits):
        raise TypeError("a worker answers None, an Emit or a Move, or several")
    return emits


def said(error: BaseException) -> str:
    """The message of an error, never empty, never too long."""
    name, text = type(error).__name__, str(error)
    plain = isinstance(error, (Retry, Fatal)) and text
    whole = text if plain else f"{name}: {text}" if text else name
    return whole.encode("utf-8", "replace")[:MESSAGE_BYTES_MAX].decode("utf-8", "ignore")


def wire(outcome: Outcome) -> dict[str, Any]:
    """An outcome as the server reads it."""
    if isinstance(outcome, list):
        emits = [_declaration(**asdict(one)) for one in outcome if isinstance(one, Emit)]
        moves = [asdict(one) for one in outcome if isinstance(one, Move)]
        return {"emit": emits, "watermarks": moves} if moves else {"emit": emits}
    class_ = outcome.class_ if isinstance(outcome, (Retry, Fatal)) else "transient"
    failure: dict[str, Any] = {"class": class_, "message": said(outcome)}
    if isinstance(outcome, Retry) and outcome.after is not None:
        failure["retry_after_seconds"] = min(max(math.ceil(outcome.after), 0), RETRY_SECONDS_MAX)
    return failure
