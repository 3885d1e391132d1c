"""When a run may work: the caller's hours and the time it was given."""

from __future__ import annotations

from typing import TYPE_CHECKING

from packstone.service.merge_run import deadline, now_utc

if TYPE_CHECKING:
    from collections.abc import Callable

    from packstone.model.filters import Budget, Filters


def outside_window(filters: Filters) -> str | None:
    """Say that it is not the hour, or None."""
    if filters.window is None or filters.window.contains(now_utc()):
        return None
    return f"it is now outside {filters.window}"


def may_go_on(filters: Filters, budget: Budget) -> Callable[[], str | None]:
    """Make the question whether anything new may begin; the answer is why not."""
    is_over = deadline(budget.max_seconds)

    def ask() -> str | None:
        if is_over():
            return f"over the budget of --max-seconds {budget.max_seconds:g}"
        return outside_window(filters)

    return ask
