"""What is left alone is named, but never without bound."""

from __future__ import annotations

from packstone.model.outcome import SkipKind, SkipLog, Skipped


def test_quiet_skips_are_counted_beyond_a_bound():
    """Of a million partitions that need nothing the log keeps ten thousand names and one number."""
    log = SkipLog()
    log.extend(Skipped(what=f"dt={i}", why="fine", kind=SkipKind.NOT_NEEDED) for i in range(SkipLog.NAMED + 5))
    listed = list(log)
    assert len(listed) == SkipLog.NAMED + 1
    assert listed[-1].what == "5 more"


def test_skips_that_need_a_person_are_all_kept():
    """A broken file is never summed up: each one is named, however many there are."""
    log = SkipLog()
    log.extend(Skipped(what=f"f{i}", why="broken", kind=SkipKind.UNREADABLE) for i in range(SkipLog.NAMED + 5))
    assert [skip.what for skip in log] == [f"f{i}" for i in range(SkipLog.NAMED + 5)]
