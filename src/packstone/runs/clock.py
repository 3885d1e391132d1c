"""The clock, ids, randomness and waiting: read here and nowhere below, handed down as arguments."""

from __future__ import annotations

import random
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Clock:
    """What a commit needs from outside; a test gives its own."""

    now_ms: Callable[[], int]
    new_id: Callable[[], str]
    random: Callable[[], float]  # a number in [0, 1)
    sleep: Callable[[float], None]


def system_clock() -> Clock:
    """The real one."""
    return Clock(now_ms=now_ms, new_id=new_id, random=random.random, sleep=time.sleep)


def now_ms() -> int:
    """Milliseconds since 1970."""
    return time.time_ns() // 1_000_000


def new_id() -> str:
    """An id that nobody else has: 16 hexadecimal digits, short enough for file names."""
    return uuid.uuid4().hex[:16]


def new_run_id() -> str:
    """Name a run: its time sorts, random digits distinguish runs of one second."""
    return f"{datetime.now(UTC):%Y%m%dT%H%M%S}-{uuid.uuid4().hex[:6]}"
