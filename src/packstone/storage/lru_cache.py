"""The one cache: least recently used out first, bounded in bytes, each key loaded once however many threads ask.

Room is made before an entry comes in, so the entries are never over the limit, not for a moment; what callers still
hold in their hands is theirs and not counted. Nothing is ever invalidated: a key carries the version of what it names.

A load runs outside the lock. Who asks for the same key meanwhile waits for it; who asks for another key does not.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from packstone.errors import InvalidInputError

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheStats:
    """What a cache did since it was made, and what it holds now.

    Every call is a hit or a miss. A miss that found its key being loaded waited and is no load, so
    ``misses - loads`` calls were spared by waiting. ``refused`` values were larger than the whole limit.
    """

    limit_bytes: int
    bytes: int = 0
    entries: int = 0
    hits: int = 0
    misses: int = 0
    loads: int = 0
    failures: int = 0
    evictions: int = 0
    refused: int = 0

    def __str__(self) -> str:
        return (
            f"{self.entries} entries {self.bytes}/{self.limit_bytes}B hits={self.hits} misses={self.misses} "
            f"loads={self.loads} failures={self.failures} evictions={self.evictions} refused={self.refused}"
        )


@dataclass(slots=True)
class _Counts:
    hits: int = 0
    misses: int = 0
    loads: int = 0
    failures: int = 0
    evictions: int = 0
    refused: int = 0


@dataclass(slots=True)
class _Load(Generic[V]):
    """A load under way. ``values`` holds the one value when it came, ``error`` why it did not."""

    thread: int
    done: threading.Event = field(default_factory=threading.Event)
    values: list[V] = field(default_factory=list)
    error: Exception | None = None


class LruCache(Generic[K, V]):
    """Values by key; ``limit_bytes`` bounds the sum of their sizes."""

    def __init__(self, limit_bytes: int) -> None:
        if limit_bytes < 0:
            raise InvalidInputError(f"A cache cannot hold {limit_bytes} bytes; give 0 or more.")
        self._limit_bytes = limit_bytes
        self._lock = threading.Lock()
        self._entries: OrderedDict[K, tuple[V, int]] = OrderedDict()  # the least recently used first
        self._loads: dict[K, _Load[V]] = {}
        self._bytes = 0
        self._counts = _Counts()

    def __contains__(self, key: object) -> bool:
        """Whether a value is here now; asking is no use of it."""
        with self._lock:
            return key in self._entries

    def get_or_load(self, key: K, load: Callable[[], V], size_of: Callable[[V], int]) -> V:
        """The value of this key; if it is not here, what ``load`` returns.

        An error of the load is raised in every thread that waits for it, and the next call loads again. If the
        loading thread was interrupted (KeyboardInterrupt, SystemExit), that is its own affair: a waiter loads.
        A load may ask for other keys, as long as no two keys need each other.
        """
        is_counted = False
        while True:
            with self._lock:
                entry = self._entries.get(key)
                if entry is not None:
                    self._entries.move_to_end(key)
                    self._counts.hits += not is_counted
                    return entry[0]
                self._counts.misses += not is_counted
                is_counted = True
                found = self._loads.get(key)
                running = self._begin(key) if found is None else found
            if found is None:
                return self._run(key, running, load=load, size_of=size_of)
            if running.thread == threading.get_ident():
                raise RuntimeError(f"The load of {key!r} asks for {key!r} itself.")
            running.done.wait()
            if running.error is not None:
                raise running.error
            if running.values:
                return running.values[0]

    def stats(self) -> CacheStats:
        """All figures, taken at one moment."""
        with self._lock:
            counts = self._counts
            return CacheStats(
                limit_bytes=self._limit_bytes,
                bytes=self._bytes,
                entries=len(self._entries),
                hits=counts.hits,
                misses=counts.misses,
                loads=counts.loads,
                failures=counts.failures,
                evictions=counts.evictions,
                refused=counts.refused,
            )

    def clear(self) -> None:
        """Forget all entries, which is no eviction; what is being loaded at this moment still comes in."""
        with self._lock:
            self._entries.clear()
            self._bytes = 0

    def _begin(self, key: K) -> _Load[V]:
        self._counts.loads += 1
        running = self._loads[key] = _Load(thread=threading.get_ident())
        return running

    def _run(self, key: K, running: _Load[V], *, load: Callable[[], V], size_of: Callable[[V], int]) -> V:
        try:
            value = load()
            size = _checked(size_of(value))
        except BaseException as error:
            running.error = error if isinstance(error, Exception) else None
            self._finish(key, running, None)
            raise
        running.values.append(value)
        self._finish(key, running, (value, size))
        return value

    def _finish(self, key: K, running: _Load[V], entry: tuple[V, int] | None) -> None:
        """Let the entry in and the load out in one step: in between, another thread would load again."""
        with self._lock:
            if entry is None:
                self._counts.failures += 1
            elif entry[1] > self._limit_bytes:
                self._counts.refused += 1
            else:
                self._make_room(entry[1])
                self._entries[key] = entry
                self._bytes += entry[1]
            del self._loads[key]
        running.done.set()

    def _make_room(self, wanted_bytes: int) -> None:
        while self._bytes + wanted_bytes > self._limit_bytes:
            _, (_, size) = self._entries.popitem(last=False)
            self._bytes -= size
            self._counts.evictions += 1


def _checked(size: int) -> int:
    if size < 0:
        raise InvalidInputError(f"A value cannot have {size} bytes.")
    return size
