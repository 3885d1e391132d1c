"""Which table a run worked on: the target that was typed, or the history's word."""

from __future__ import annotations

from packstone.errors import InvalidInputError
from packstone.storage.location import parse_location


def find_target(run: str, target: str | None, history_url: str | None) -> str:
    """Return the path of a run's table."""
    if target is not None:
        return parse_location(target).path
    from packstone.service.record import history_address
    from packstone.service.replay import open_current_history

    with open_current_history(history_address(history_url)) as history:
        found = history.read_run(run)
    if found is None:
        raise InvalidInputError(f"The history does not know run {run}; give its table as the second argument.")
    return parse_location(found[0].table).path
