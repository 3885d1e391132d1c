"""The clock, ids, randomness and waiting: used only here, and passed as arguments to the layers below."""

from __future__ import annotations

import random
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Clock:
    """The time, ids, randomness and waiting that a commit uses; tests inject their own."""

    now_ms: Callable[[], int]
    new_id: Callable[[], str]
    random: Callable[[], float]  # a number in [0, 1)
    sleep: Callable[[float], None]


def system_clock() -> Clock:
    """The clock of this machine."""
    return Clock(now_ms=now_ms, new_id=new_id, random=random.random, sleep=time.sleep)


def now_ms() -> int:
    """Milliseconds since 1970."""
    return time.time_ns() // 1_000_000


def now_seconds() -> float:
    """Seconds since 1970."""
    return time.time()


def now_utc() -> datetime:
    """The current time in UTC, timezone-aware."""
    return datetime.now(UTC)


def now_local() -> datetime:
    """The local time without a zone, as Paimon stores it."""
    return datetime.now()  # noqa: DTZ005 - without a zone on purpose


def new_uuid() -> str:
    """A unique id in the form that Paimon uses for file names."""
    return str(uuid.uuid4())


def new_id() -> str:
    """A unique id of 16 hexadecimal digits, short enough for file names."""
    return uuid.uuid4().hex[:16]


def new_run_id() -> str:
    """A new run id: it begins with the time, so ids sort; random digits distinguish runs of one second."""
    return f"{datetime.now(UTC):%Y%m%dT%H%M%S}-{uuid.uuid4().hex[:6]}"
