"""Edits of a status: what each does, what it refuses, and what holds after any row of them."""

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from packstone.errors import ConflictError, InvalidInputError, PackstoneError, RefusedError
from packstone.model.segment import Segment, SegmentId, SegmentStatus
from packstone.strategy.segment_view import SegmentView, name_merged
from packstone.tables.segments.format.columns import parse_columns
from packstone.tables.segments.format.edits import (
    MadeMerge,
    RowsChangedError,
    SegmentDelete,
    SegmentFacts,
    abandon_attempt,
    alter_properties,
    begin_compaction,
    begin_load,
    cleaned,
    delete_before,
    delete_rows,
    delete_segments,
    finish_compaction,
    finish_load,
    mark_cleaning,
    new_table,
    undo_merges,
)
from packstone.tables.segments.format.status import (
    DAY_MS,
    DELETABLE,
    FIRST,
    MERGEABLE,
    RETIRED,
    TRANSITIONS,
    VISIBLE,
    check_transition,
)

ID = SegmentId.parse


def facts(name="s.json", **changes):
    """What a load has written."""
    known = {"segment_file": name, "rows": 10, "files": 2, "data_bytes": 100, "index_bytes": 10}
    return SegmentFacts(**(known | changes))


class Table:
    """A status with its retired list and everything that ever was, edited step by step."""

    def __init__(self, loads=0):
        self.status = new_table(parse_columns("id long"), {}, table_id="t", commit="c", now_ms=0)
        self.retired = {}  # by id and attempt, as all that follows: an undone merge leaves its id to the next
        self.cleaned = {}
        self.merges = []
        self.now_ms = 0
        for _ in range(loads):
            self.load()

    def edit(self, edit, *args, **kwargs):
        """Apply an edit as a commit does, and check what must always hold."""
        before, changed = self.status, edit(self.status, *args, **kwargs)
        self.status = replace(changed.status, version=before.version + 1)
        old = {entry.key: entry for entry in (*before.entries, *self.retired.values())}
        for key in changed.revived:
            del self.retired[key]
        for key in changed.cleaning & self.retired.keys():
            if self.retired[key].status is SegmentStatus.COMPACTED:
                self.retired[key] = replace(self.retired[key], status=SegmentStatus.MARKED_FOR_DELETE)
        for entry in changed.retired:
            assert entry.key not in self.retired
            assert entry.key not in self.cleaned
            self.retired[entry.key] = entry
        for key in changed.cleaned & self.retired.keys():
            self.cleaned[key] = self.retired.pop(key)
        self.check_transitions(old)
        self.check()
        return changed

    def begin(self, attempt, *, overwrite=False):
        """Announce a load."""
        self.now_ms += 1
        self.edit(begin_load, attempt=attempt, overwrite=overwrite, now_ms=self.now_ms)
        return self.status.find_load(attempt).id

    def finish(self, attempt, **changes):
        """Make it visible."""
        self.now_ms += 1
        return self.edit(finish_load, facts(f"{attempt}.json", **changes), attempt=attempt, now_ms=self.now_ms)

    def load(self, *, overwrite=False):
        """A whole load."""
        attempt = f"load-{self.status.next_load}"
        segment = self.begin(attempt, overwrite=overwrite)
        self.finish(attempt)
        return segment

    def register(self, attempt, *ids, output=None, is_major=False):
        """Begin a compaction; its name comes from the strategies."""
        self.now_ms += 1
        members = [ID(one) if isinstance(one, str) else one for one in ids]
        output = ID(output) if output else self.name(members)
        self.edit(
            begin_compaction,
            attempt=attempt,
            inputs=members,
            output=output,
            now_ms=self.now_ms,
            is_major=is_major,
        )

    def merge(self, attempt):
        """Finish a compaction."""
        self.now_ms += 1
        running = [one for one in self.status.running if one.attempt == attempt]
        output = running[0].output if running else ID("0.1")
        members = [self.status.find(one).segment_file for one in (running[0].inputs if running else ())]
        done = self.edit(
            finish_compaction, facts(f"{output}_{attempt}.json"), attempt=attempt, output=output, now_ms=self.now_ms
        )
        self.merges.append(MadeMerge(output=output, run=attempt, members=tuple(members)))
        return done

    def undo(self, *runs):
        """Undo the merges of runs, the last one first."""
        self.now_ms += 1
        wanted = [one for one in reversed(self.merges) if one.run in runs]
        lists = {"retired": list(self.retired.values()), "history": list(self.cleaned.values())}
        return self.edit(undo_merges, wanted, **lists, now_ms=self.now_ms)

    def name(self, members):
        """What the strategies would call the merge."""
        view = SegmentView(segments=tuple(Segment(id=entry.id) for entry in self.status.entries))
        there = [entry.id for entry in self.status.entries]
        return name_merged(view, [there.index(one) for one in sorted(members)], as_coded=False)

    def ids(self):
        """What readers see."""
        return " ".join(str(entry.id) for entry in self.status.live)

    def check_transitions(self, old):
        """Every entry that changed did so along the table of transitions."""
        now = {entry.key: entry for entry in (*self.status.entries, *self.retired.values(), *self.cleaned.values())}
        for key, entry in now.items():
            was = old.get(key)
            if was is not None and was.status is not entry.status:
                check_transition(entry.id, was.status, entry.status)
            if was is None and key not in self.retired and key not in self.cleaned:
                assert entry.status in FIRST
        assert old.keys() <= now.keys()

    def check(self):
        """What holds of every status."""
        ids = [entry.id for entry in self.status.entries]
        assert all(one < other for one, other in pairwise(ids))
        keys = {entry.key for entry in self.status.entries}
        assert not keys & self.retired.keys()
        assert not keys & self.cleaned.keys()
        assert all(segment.load < self.status.next_load for segment, _ in (*keys, *self.retired, *self.cleaned))
        assert len({segment.load for segment in ids}) == len(ids)  # so a merged id is always new
        live = {entry.id for entry in self.status.entries if entry.status in VISIBLE}
        inputs = [segment for running in self.status.running for segment in running.inputs]
        assert len(set(inputs)) == len(inputs)
        assert set(inputs) <= live
        known = {*keys, *self.retired, *self.cleaned}
        assert not known & {(running.output, running.attempt) for running in self.status.running}
        assert not live & {running.output for running in self.status.running}
        seen = {segment for segment, _ in known}
        for entry in self.status.entries:
            assert entry.merged_into is None
            assert (entry.segment_file is not None) == (entry.status in VISIBLE)
        for entry in self.retired.values():
            assert entry.status in RETIRED
            assert entry.modified_ms is not None
            assert entry.merged_into is None or entry.merged_into in seen
            assert entry.status is not SegmentStatus.COMPACTED or entry.merged_into is not None


def test_the_table_of_transitions_is_closed():
    """Every status is in it; what is visible can be deleted and merged, what is deleted stays so."""
    assert set(TRANSITIONS) == set(SegmentStatus)
    assert VISIBLE == DELETABLE == MERGEABLE
    assert {"success", "partial-success", "marked-for-update"} == VISIBLE
    assert not TRANSITIONS[SegmentStatus.MARKED_FOR_DELETE]
    assert TRANSITIONS[SegmentStatus.COMPACTED] == {"success", "partial-success", "marked-for-delete"}
    for status, later in TRANSITIONS.items():
        for after in SegmentStatus:
            if after in later:
                check_transition(ID("0"), status, after)
            else:
                with pytest.raises(ConflictError, match=f"Segment 0 is {status} and cannot become {after}"):
                    check_transition(ID("0"), status, after)


def test_loads_get_ids_in_order_and_appear_when_they_finish():
    """The second to begin may be the first to be seen."""
    table = Table()
    assert [table.begin(attempt) for attempt in "ab"] == [ID("0"), ID("1")]
    assert table.ids() == ""
    table.finish("b", bad_rows=3)
    assert table.ids() == "1"
    table.finish("a")
    assert [str(entry) for entry in table.status.entries] == [
        "0 success 10 rows 2 files 100 B",
        "1 partial-success 10 rows 2 files 100 B",
    ]
    assert table.status.entries[1].bad_rows == 3


def test_a_load_that_was_given_up_cannot_finish_and_its_id_stays_taken():
    """Its entry goes to the retired list without a segment file; giving up twice changes nothing."""
    table = Table()
    table.begin("a")
    table.edit(abandon_attempt, attempt="a", now_ms=9)
    assert (table.retired[ID("0"), "a"].status, table.retired[ID("0"), "a"].segment_file) == ("marked-for-delete", None)
    status = table.status
    assert abandon_attempt(status, attempt="a", now_ms=9).status is status
    with pytest.raises(ConflictError, match="The load a is no longer in the table's status"):
        table.finish("a")
    assert table.load() == ID("1")


def test_a_load_begins_and_finishes_once():
    """A second begin or finish of one attempt is a conflict."""
    table = Table()
    table.begin("a")
    with pytest.raises(ConflictError, match="has begun already"):
        table.begin("a")
    table.finish("a")
    with pytest.raises(ConflictError, match="no longer in the table's status"):
        table.finish("a")


def test_overwrite_retires_what_is_committed_and_leaves_what_is_loading():
    """Loads that began before or after it and finish later stay visible; retention counts from the overwrite."""
    table = Table(loads=2)
    table.register("m", "0", "1")
    table.begin("early")
    table.begin("over", overwrite=True)
    table.load()
    done = table.finish("over")
    assert table.ids() == "3"
    assert [(str(one.id), one.status, one.modified_ms) for one in done.retired] == [
        (one, "marked-for-delete", table.now_ms) for one in ("0", "1", "4")
    ]
    table.finish("early")
    assert table.ids() == "2 3"
    assert table.status.running == ()
    with pytest.raises(ConflictError, match=r"compaction m into 0\.1 is no longer registered"):
        table.merge("m")


def test_two_overwrites_at_once():
    """Both succeed; the later commit is what is left."""
    table = Table(loads=1)
    table.begin("a", overwrite=True)
    table.begin("b", overwrite=True)
    table.finish("b")
    table.finish("a")
    assert table.ids() == "1"


def test_compaction_replaces_its_inputs():
    """They are compacted into the merged one, which keeps the day of the newest load inside."""
    table = Table()
    for attempt, day in (("a", 3), ("b", 5), ("c", 4)):
        table.edit(begin_load, attempt=attempt, overwrite=False, now_ms=day * DAY_MS + 7)
        table.finish(attempt)
    table.now_ms = 9 * DAY_MS
    table.register("m", "2", "0", "1", is_major=True)
    done = table.merge("m")
    (merged,) = table.status.entries
    assert str(merged) == "0.1 success major 10 rows 2 files 100 B"
    assert (merged.load_day, merged.load_start_ms, merged.attempt) == (5, 9 * DAY_MS + 1, "m")
    assert [str(entry).split(" 10 ")[0] for entry in done.retired] == [f"{at} compacted into 0.1" for at in range(3)]
    assert table.status.running == ()


def test_a_segment_is_in_one_compaction_only():
    """The second to ask learns who has it; when that one gives up, it may."""
    table = Table(loads=3)
    table.register("m", "0", "1")
    with pytest.raises(ConflictError, match="Segment 1 is being merged by the compaction m"):
        table.register("n", "1", "2")
    with pytest.raises(ConflictError, match=r"compaction m into 0\.1 has begun already"):
        table.register("m", "0", "1")
    table.edit(abandon_attempt, attempt="m", now_ms=1)
    table.register("n", "1", "2")
    with pytest.raises(ConflictError, match=r"compaction m into 0\.1 is no longer registered"):
        table.merge("m")
    table.merge("n")
    assert table.ids() == "0 1.1"


def test_what_cannot_be_merged():
    """Only what readers see; under a name that continues the first member's."""
    table = Table(loads=3)
    table.begin("x")
    table.edit(delete_segments, [ID("2")], now_ms=1)
    with pytest.raises(ConflictError, match="Segment 2 is no longer live"):
        table.register("m", "1", "2", output="1.1")
    with pytest.raises(ConflictError, match="Segment 3 is in progress; plan again"):
        table.register("m", "1", "3")
    with pytest.raises(InvalidInputError, match=r"merge of 0, 1 cannot have the id 1\.1"):
        table.register("m", "0", "1", output="1.1")
    with pytest.raises(InvalidInputError, match="merge of 0 cannot have the id 0"):
        table.register("m", "0", output="0")
    with pytest.raises(InvalidInputError, match="at least one segment"):
        table.register("m", output="0.1")


def test_a_compaction_that_read_other_files_conflicts():
    """The segment file that was merged must be the one that is live."""
    table = Table(loads=2)
    table.register("m", "0", "1")
    read = {ID("0"): ("load-0.json", None), ID("1"): ("other.json", None)}
    with pytest.raises(ConflictError, match="Segment 1 cannot be merged: it has changed"):
        finish_compaction(table.status, facts(), attempt="m", output=ID("0.1"), now_ms=1, read=read)
    read[ID("1")] = ("load-1.json", None)
    table.edit(finish_compaction, facts(), attempt="m", output=ID("0.1"), now_ms=1, read=read)
    assert table.ids() == "0.1"


def deleted(table, segment, rows, *, name="d.json", content=None):
    """A delete file for a segment as it is now, or for one that was."""
    entry = table.status.find(ID(segment))
    return SegmentDelete(key=entry.key, content=content or entry.content, delete_file=name, deleted_rows=rows)


def test_a_compaction_that_read_deleted_rows_conflicts():
    """Rows that were deleted while it ran would be live again: the merge is lost, and the next one reads them right."""
    table = Table(loads=2)
    table.register("m", "0", "1")
    read = {entry.id: entry.content for entry in table.status.entries}
    table.edit(delete_rows, [deleted(table, "1", 3)], now_ms=1)
    with pytest.raises(ConflictError, match="Segment 1 cannot be merged: rows were deleted from it"):
        finish_compaction(table.status, facts(), attempt="m", output=ID("0.1"), now_ms=1, read=read)
    read[ID("1")] = ("load-1.json", "d.json")
    table.edit(finish_compaction, facts(), attempt="m", output=ID("0.1"), now_ms=1, read=read)
    (merged,) = table.status.entries
    assert (merged.delete_file, merged.deleted_rows) == (None, 0)
    assert {entry.delete_file for entry in table.retired.values()} == {None, "d.json"}


def test_deletes_replace_the_delete_file_they_read():
    """A second delete that did not see the first one conflicts, as does one of a segment that is gone; all or none."""
    table = Table(loads=3)
    stale = deleted(table, "0", 1, name="old.json")
    table.edit(delete_rows, [deleted(table, "0", 2), deleted(table, "1", 4, name="e.json")], now_ms=1)
    assert [entry.deleted_rows for entry in table.status.entries] == [2, 4, 0]
    with pytest.raises(RowsChangedError, match="Segment 0 has changed since its rows were read"):
        delete_rows(table.status, [deleted(table, "2", 1), stale], now_ms=2)
    table.edit(delete_rows, [deleted(table, "0", 5, name="f.json")], now_ms=2)
    gone = deleted(table, "0", 6)
    table.edit(delete_segments, [ID("0")], now_ms=3)
    with pytest.raises(RowsChangedError, match="Segment 0 is no longer live"):
        delete_rows(table.status, [gone], now_ms=4)
    assert [entry.delete_file for entry in table.retired.values()] == ["f.json"]


def test_a_segment_without_rows_is_retired():
    """In the same commit as its last rows; its merge is ended."""
    table = Table(loads=2)
    table.register("m", "0", "1")
    table.edit(delete_rows, [deleted(table, "0", 10)], now_ms=1)
    assert table.ids() == "1"
    assert table.status.running == ()
    assert [str(entry.status) for entry in table.retired.values()] == ["marked-for-delete"]


def test_a_merge_is_not_undone_under_deleted_rows():
    """The inputs still have the rows that were deleted from the merged segment."""
    table = Table(loads=2)
    table.register("m", "0", "1")
    table.edit(delete_rows, [deleted(table, "1", 3)], now_ms=1)
    table.edit(finish_compaction, facts(), attempt="m", output=ID("0.1"), now_ms=1)
    made = MadeMerge(output=ID("0.1"), run="m", members=("load-0.json", "load-1.json"))
    lists = {"retired": table.retired.values(), "history": ()}
    back = undo_merges(table.status, [made], now_ms=2, **lists)
    assert [entry.deleted_rows for entry in back.status.entries] == [0, 3]
    table.edit(delete_rows, [deleted(table, "0.1", 1, name="e.json")], now_ms=2)
    with pytest.raises(RefusedError, match=r"1 row of segment 0\.1 was deleted after it was merged"):
        undo_merges(table.status, [made], now_ms=3, **lists)


def test_deleting_an_input_ends_the_compaction_of_its_group_only():
    """The other group goes on."""
    table = Table(loads=4)
    table.register("m", "0", "1")
    table.register("n", "2", "3")
    table.edit(delete_segments, [ID("1")], now_ms=1)
    with pytest.raises(ConflictError, match="deleted or overwritten"):
        table.merge("m")
    table.merge("n")
    assert table.ids() == "0 2.1"


def test_delete_is_all_or_nothing():
    """One bad id and nothing is deleted; the sentence names it and its status."""
    table = Table(loads=3)
    table.register("m", "0", "1")
    table.merge("m")
    table.begin("x")
    retired = table.retired.values()
    for bad, sentence in (
        ("7", "Segment 7 does not exist; nothing was deleted."),
        ("0", "Segment 0 is compacted into 0.1, so it cannot be deleted; nothing was deleted."),
        ("3", "Segment 3 is in progress, so it cannot be deleted; nothing was deleted."),
    ):
        with pytest.raises(InvalidInputError) as caught:
            table.edit(delete_segments, [ID("2"), ID(bad)], now_ms=1, retired=retired)
        assert caught.value.message == sentence
    with pytest.raises(InvalidInputError, match="No segment is given"):
        table.edit(delete_segments, [], now_ms=1)
    table.edit(delete_segments, [ID("2"), ID("0.1"), ID("2")], now_ms=1)
    assert table.ids() == ""
    with pytest.raises(InvalidInputError, match=r"Segment 0\.1 is marked for delete"):
        table.edit(delete_segments, [ID("0.1")], now_ms=1, retired=table.retired.values())


def test_delete_by_date():
    """What was loaded before; of a merged segment the newest load counts; loads at work are left out."""
    table = Table()
    for at in range(4):
        table.edit(begin_load, attempt=f"a{at}", overwrite=False, now_ms=at * 100)
        if at != 1:
            table.finish(f"a{at}")
    table.register("m", "0", "2")
    table.merge("m")
    with pytest.raises(InvalidInputError, match="No segment was loaded before that time"):
        table.edit(delete_before, 200, now_ms=999)
    done = table.edit(delete_before, 201, now_ms=999)
    assert [(str(one.id), one.modified_ms) for one in done.retired] == [("0.1", 999)]
    assert [str(entry.id) for entry in table.status.entries] == ["1", "3"]


def test_alter_and_clean():
    """Properties are checked as a whole; the same value again is not a change; cleaned ids go with the change."""
    table = Table()
    table.edit(alter_properties, {"sort_columns": "id"})
    assert table.status.properties == (("SORT_COLUMNS", "id"),)
    assert alter_properties(table.status, {"SORT_COLUMNS": "id"}).status is table.status
    with pytest.raises(InvalidInputError, match="not a table property"):
        table.edit(alter_properties, {"x": "1"})
    assert cleaned(table.status, [(ID("1"), "a")]).cleaned == {(ID("1"), "a")}


def test_one_run_registers_several_merges():
    """Each stands by its output: one is given up, the other is finished; without a name all of them go."""
    table = Table(loads=6)
    for ids in (("0", "1"), ("2", "3"), ("4", "5")):
        table.register("m", *ids)
    table.edit(abandon_attempt, attempt="m", outputs={ID("0.1")}, now_ms=1)
    assert [str(one) for one in table.status.running] == ["2 3 -> 2.1 (m)", "4 5 -> 4.1 (m)"]
    table.edit(finish_compaction, facts("2.1_m.json"), attempt="m", output=ID("2.1"), now_ms=1)
    assert table.ids() == "0 1 2.1 4 5"
    table.edit(abandon_attempt, attempt="m", now_ms=1)
    assert table.status.running == ()


def test_an_undone_merge_leaves_its_id_to_the_next():
    """The inputs are live again; a second 0.1 beside the retired one; both are undone for themselves, and once."""
    table = Table(loads=3)
    for run in ("m", "n"):
        table.register(run, "0", "1")
        table.merge(run)
        assert table.ids() == "0.1 2"
        table.undo(run)
        assert table.ids() == "0 1 2"
        assert table.undo(run).retired == ()
    assert [str(one.id) for one in table.retired.values()] == ["0.1", "0.1"]
    assert table.undo("m", "n").retired == ()


def test_undoing_a_run_of_two_rounds():
    """What a later round made is undone first, in the same change; nothing of it is in the list of retired twice."""
    table = Table(loads=4)
    for ids in (("0", "1"), ("2", "3"), ("0.1", "2.1")):
        table.register("m", *ids)
        table.merge("m")
    assert table.ids() == "0.2"
    table.undo("m")
    assert table.ids() == "0 1 2 3"
    assert [(str(one.id), str(one.status)) for one in table.retired.values()] == [
        ("0.1", "marked-for-delete"), ("0.2", "marked-for-delete"), ("2.1", "marked-for-delete"),
    ]  # fmt: skip


def test_what_cannot_be_undone():
    """One sentence each; nothing is changed."""
    table = Table(loads=4)
    table.register("m", "0", "1")
    table.merge("m")
    table.register("n", "0.1", "2")
    with pytest.raises(RefusedError, match=r"Segment 0\.1 is being merged by the compaction n"):
        table.undo("m")
    table.merge("n")
    with pytest.raises(RefusedError, match=r"Segment 0\.1 is compacted into 0\.2, so the merge that made it"):
        table.undo("m")
    table.edit(mark_cleaning, [(ID("2"), "load-2")])
    with pytest.raises(RefusedError, match=r"Segment 2, which was merged into 0\.2, has been cleaned"):
        table.undo("n")
    table.edit(cleaned, [(ID("2"), "load-2")])
    with pytest.raises(RefusedError, match=r"Segment 2, which was merged into 0\.2, has been cleaned"):
        table.undo("n")
    table.edit(delete_segments, [ID("0.2")], now_ms=table.now_ms)
    with pytest.raises(RefusedError, match=r"Segment 0\.2 is marked for delete"):
        table.undo("n")


def test_bad_rows_of_a_load_are_remembered_by_what_is_live_again():
    """Through two rounds: only the segment that holds the load with bad rows is a partial success."""
    table = Table()
    for load in range(4):
        table.begin(f"load-{load}")
        table.finish(f"load-{load}", bad_rows=int(load == 2))
    for run, ids in (("m", ("0", "1")), ("n", ("2", "3")), ("o", ("0.1", "2.1"))):
        table.register(run, *ids)
        table.merge(run)
    assert str(table.status.find(ID("0.2")).status) == "partial-success"
    table.undo("o")
    assert [str(one.status) for one in table.status.entries] == ["success", "partial-success"]
    table.undo("n")
    assert [str(one.status) for one in table.status.entries] == ["success", "partial-success", "success"]


def test_segments_marked_for_cleaning_are_not_revived_and_live_ones_not_marked():
    """Whichever comes first: clean marks before it removes, restore takes only what is not marked."""
    table = Table(loads=2)
    table.register("m", "0", "1")
    table.merge("m")
    table.undo("m")
    table.edit(mark_cleaning, [(ID("0"), "load-0"), (ID("0.1"), "m")])
    assert table.ids() == "0 1"


WORDS = "begin begin overwrite finish finish abandon register register merge merge delete before clean undo undo mark"
steps = st.lists(
    st.tuples(st.sampled_from(WORDS.split()), st.integers(0, 30), st.sets(st.integers(0, 8), min_size=1, max_size=4)),
    max_size=60,
)


def act(table, what, *, attempt, new, some):
    """One edit by its word; ``attempt`` is one that was begun before, ``new`` one that was not."""
    actions = {
        "begin": lambda: table.begin(new),
        "overwrite": lambda: table.begin(new, overwrite=True),
        "finish": lambda: table.finish(attempt),
        "abandon": lambda: table.edit(abandon_attempt, attempt=attempt, now_ms=table.now_ms),
        "register": lambda: table.register(new, *some) if some else None,
        "merge": lambda: table.merge(attempt),
        "delete": lambda: table.edit(delete_segments, some, now_ms=table.now_ms, retired=table.retired.values()),
        "before": lambda: table.edit(delete_before, table.now_ms - len(some), now_ms=table.now_ms),
        "clean": lambda: table.edit(cleaned, list(table.retired)[: len(some)]),
        "undo": lambda: table.undo(attempt),
        "mark": lambda: table.edit(mark_cleaning, list(table.retired)[: len(some)]),
    }
    actions[what]()


@given(steps)
def test_random_edits_keep_every_promise(script):
    """Any edits in any order: ids of live segments unique, nothing live and retired, running inputs live, all sorted.

    The promises are checked after each edit (`Table.check`); an edit that is refused has changed nothing.
    """
    table = Table()
    attempts = ["none"]
    for number, (what, chance, picks) in enumerate(script):
        there = [entry.id for entry in table.status.entries]
        some = [there[at % len(there)] for at in picks] if there else []
        before = table.status, dict(table.retired)
        try:
            act(table, what, attempt=attempts[chance % len(attempts)], new=f"a{number}", some=some)
            attempts.append(f"a{number}")
        except PackstoneError:
            assert (table.status, table.retired) == before
