"""How a run tells how far it is; the command line draws it, a library caller usually does not care."""

from __future__ import annotations

from typing import Protocol


class Progress(Protocol):
    """Receives what is done of what is to do."""

    def update(self, *, done_units: int, units: int, done_bytes: int, total_bytes: int) -> None:
        """Take the present state; called often, from another thread too."""
        ...

    def close(self) -> None:
        """The work is over."""
        ...


class NoProgress:
    """Tells nobody."""

    def update(self, *, done_units: int, units: int, done_bytes: int, total_bytes: int) -> None:
        """Tell nobody."""

    def close(self) -> None:
        """Nothing was opened."""
