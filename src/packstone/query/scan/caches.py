"""The caches of a process: indexes of segments (driver), footers and dictionaries of Parquet files (executor).

A cached dictionary serves both directions, value to code and code to value (query/scan/dictionaries.py).

``LruCache`` evicts the least recently used entries first, is bounded in bytes, and loads each key once however many
threads request it. It evicts before it adds an entry, so its entries never exceed the limit; values that callers still
hold after an eviction are not counted. Nothing is ever invalidated: a key contains the version of what it names. A load
runs outside the lock: requests for the same key wait for it, requests for other keys do not.
"""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Final, Generic, TypeVar

from packstone.errors import InvalidInputError
from packstone.model.sizes import parse_bytes

# An index of a million row groups with ten columns is about 300 MB; footers and most dictionaries are kilobytes.
DEFAULT_BYTES: Final[Mapping[str, int]] = {"index": 512 << 20, "footer": 64 << 20, "dictionary": 64 << 20}
_VARIABLES: Final[Mapping[str, str]] = {name: f"PACKSTONE_{name.upper()}_CACHE" for name in DEFAULT_BYTES}


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanCaches:
    """One cache for each kind of value, each with its own limit, so that a big index never evicts the footers."""

    index: LruCache[Any, Any]
    footer: LruCache[Any, Any]
    dictionary: LruCache[Any, Any]

    @classmethod
    def make(cls, limits: Mapping[str, int] | None = None) -> ScanCaches:
        """New, empty caches; ``limits`` in bytes override the defaults, 0 keeps nothing."""
        sizes = {**DEFAULT_BYTES, **(limits or {})}
        return cls(**{name: LruCache(sizes[name]) for name in DEFAULT_BYTES})

    def stats(self) -> dict[str, CacheStats]:
        """The counters of each cache, by name."""
        return {name: getattr(self, name).stats() for name in DEFAULT_BYTES}

    def clear(self) -> None:
        """Remove all entries of all caches."""
        for name in DEFAULT_BYTES:
            getattr(self, name).clear()


@cache
def process_caches() -> ScanCaches:
    """The caches of this process; limits are read once from the environment: ``PACKSTONE_INDEX_CACHE=1GB``."""
    return ScanCaches.make({name: _limit(variable) for name, variable in _VARIABLES.items() if variable in os.environ})


def _limit(variable: str) -> int:
    try:
        return parse_bytes(os.environ[variable])
    except InvalidInputError as error:
        raise InvalidInputError(f"{variable}: {error.message}", variable=variable) from None


K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheStats:
    """Counters of a cache since it was created, and its current size.

    Every call is a hit or a miss. A miss whose key is already being loaded waits and is not counted as a load, so
    ``misses - loads`` loads were avoided by waiting. ``refused`` values were larger than the whole limit.
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
    """A running load. ``values`` holds the one value after success, ``error`` the error after a failure."""

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
        """Whether a value is cached; this does not count as a use of it."""
        with self._lock:
            return key in self._entries

    def get_or_load(self, key: K, load: Callable[[], V], size_of: Callable[[V], int]) -> V:
        """The cached value of this key, or the value that ``load`` returns.

        An error of the load is raised in every thread that waits for it, and the next call loads again. If the
        loading thread is interrupted (KeyboardInterrupt, SystemExit), only that thread raises: a waiting one loads.
        A load may request other keys, as long as no two keys need each other.
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
                raise RuntimeError(f"The load of {key!r} requests {key!r} itself.")
            running.done.wait()
            if running.error is not None:
                raise running.error
            if running.values:
                return running.values[0]

    def stats(self) -> CacheStats:
        """All counters, read at the same time."""
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
        """Remove all entries, without counting them as evictions; running loads still add theirs."""
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
        """Add the entry and remove the load in one step: in between, another thread would load again."""
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
        raise InvalidInputError(f"A value cannot have {size} bytes; size_of must return 0 or more.")
    return size
