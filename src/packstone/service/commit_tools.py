"""The clock, the ids and the chance that commits of segment tables are given."""

from __future__ import annotations

import random
import time
import uuid

from packstone.tables.segments.commit import CommitTools


def make_commit_tools() -> CommitTools:
    """The real ones; ids are short enough for file names and long enough never to meet."""
    return CommitTools(now_ms=now_ms, new_id=new_id, draw=random.random, sleep=time.sleep)


def now_ms() -> int:
    """Milliseconds since 1970."""
    return time.time_ns() // 1_000_000


def new_id() -> str:
    """An id that nobody else has: 16 hexadecimal digits."""
    return uuid.uuid4().hex[:16]
