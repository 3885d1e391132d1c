"""The caches of a process: indexes of segments (driver), and footers of Parquet files (executor).

There is none for dictionaries: PyArrow decodes the one of a column chunk together with its codes, and a filter is
tested once on its entries (pruning/evaluate.py).
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from packstone.errors import InvalidInputError
from packstone.model.sizes import parse_bytes
from packstone.storage.lru_cache import LruCache

if TYPE_CHECKING:
    from packstone.storage.lru_cache import CacheStats

# An index of a million row groups with ten columns is about 300 MB; footers are kilobytes.
DEFAULT_BYTES: Final[Mapping[str, int]] = {"index": 512 << 20, "footer": 64 << 20}
_VARIABLES: Final[Mapping[str, str]] = {name: f"PACKSTONE_{name.upper()}_CACHE" for name in DEFAULT_BYTES}


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanCaches:
    """One for each kind of thing, each with a limit of its own, so that a big index never drives the footers out."""

    index: LruCache[Any, Any]
    footer: LruCache[Any, Any]

    @classmethod
    def make(cls, limits: Mapping[str, int] | None = None) -> ScanCaches:
        """New, empty ones; limits in bytes go over the defaults, 0 keeps nothing."""
        sizes = {**DEFAULT_BYTES, **(limits or {})}
        return cls(**{name: LruCache(sizes[name]) for name in DEFAULT_BYTES})

    def stats(self) -> dict[str, CacheStats]:
        """The figures of each."""
        return {name: getattr(self, name).stats() for name in DEFAULT_BYTES}

    def clear(self) -> None:
        """Forget everything."""
        for name in DEFAULT_BYTES:
            getattr(self, name).clear()


@cache
def process_caches() -> ScanCaches:
    """The caches of this process; limits are read from the environment, once: ``PACKSTONE_INDEX_CACHE=1GB``."""
    return ScanCaches.make({name: _limit(variable) for name, variable in _VARIABLES.items() if variable in os.environ})


def _limit(variable: str) -> int:
    try:
        return parse_bytes(os.environ[variable])
    except InvalidInputError as error:
        raise InvalidInputError(f"{variable}: {error.message}", variable=variable) from None
