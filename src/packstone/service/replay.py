"""Bring a history up to date with runs that could not be recorded when they ended.

Recording is by the run's id, so it does not matter how often and by how many processes at once this is done.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

from packstone.errors import PackstoneError
from packstone.history.connect import history_key
from packstone.history.store import open_history
from packstone.service.killed_run import RESTORED, find_facts, has_ended
from packstone.service.unrecorded import user_spool

if TYPE_CHECKING:
    from packstone.history.store import RunHistory
    from packstone.service.unrecorded import Spool, Unrecorded

# A process that cannot be seen from here (another machine, an earlier boot) is given so long: no run takes longer.
OUT_OF_SIGHT: Final = timedelta(days=2)


def open_current_history(url: str) -> RunHistory:
    """Open a history for reading, brought up to date with what this machine knows."""
    history = open_history(url)
    try:
        replay(history, user_spool(), key=history_key(url))
    except BaseException:
        history.close()
        raise
    return history


def replay(history: RunHistory, spool: Spool, *, key: str, besides: str = "") -> int:
    """Record what is kept in a folder for this history, besides one run; return how many runs that were."""
    count = 0
    for entry in tuple(spool.list_entries(key)):
        if entry.run == besides:
            continue
        try:
            if _replay_one(history, entry):
                spool.remove(entry)
                count += 1
        except (PackstoneError, OSError):
            continue  # its table is gone or cannot be reached, or the database is: a later command tries again
    return count


def _replay_one(history: RunHistory, entry: Unrecorded) -> bool:
    if entry.restored:
        history.set_status(entry.run, RESTORED)
        return True
    if entry.facts is not None:
        known = history.read_run(entry.run)
        was_undone = known is not None and known[0].status == RESTORED
        run = replace(entry.facts.run, status=RESTORED) if was_undone else entry.facts.run
        history.record_run(run, entry.facts.units, entry.facts.skips)
        return True
    if not _is_over(entry):
        return False
    facts = find_facts(entry)
    if facts is None:
        return False
    history.record_if_absent(facts)
    return True


def _is_over(entry: Unrecorded) -> bool:
    if entry.process.is_on_this_host():
        return not entry.process.is_running()
    return datetime.now(UTC) - entry.started_at > OUT_OF_SIGHT or has_ended(entry)
