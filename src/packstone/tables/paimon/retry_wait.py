"""How long to wait before a commit is tried again: doubling, capped, with jitter so that rivals fall out of step."""

from __future__ import annotations

from dataclasses import dataclass

_JITTER_SHARE = 0.2  # Paimon's own
_MAX_DOUBLINGS = 62  # beyond any cap; keeps the number small


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryWait:
    """The table's options ``commit.max-retries``, ``commit.min-retry-wait`` and ``commit.max-retry-wait``."""

    max_retries: int = 10
    min_ms: int = 10
    max_ms: int = 10_000

    def seconds(self, retry: int, *, random: float) -> float:
        """Wait before retry 0, 1, …; ``random`` is a random number in [0, 1)."""
        wait_ms = min(self.min_ms * 2 ** min(retry, _MAX_DOUBLINGS), self.max_ms)
        return wait_ms * (1 + _JITTER_SHARE * random) / 1000
