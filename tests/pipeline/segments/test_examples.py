"""The worked examples of CarbonData's rules (research notes 2.9) on real tables: which ids come out, and all rows stay.

The segments are made by real loads, deletes and merges, on the days that an example names (the clock is moved). Real
files are small, so where an example speaks of megabytes (``0:100``) the sizes in the status are set to them; rows and
files stay what they are. What cannot be in our tables is not here: streaming segments and those marked for update (E35,
and 5 of E34), segments in other formats (E36), system properties beside those of the table (of E22 and E49 the table's
half is here). Where we differ by design from what CarbonData does, the line says ``ours``.
"""

import re
from dataclasses import dataclass, field, replace

import pyarrow as pa
import pytest
from segment_lake import SegmentLake, open_run
from segment_model import Clock, quick_folder

from packstone.errors import InvalidInputError
from packstone.model.outcome import Status
from packstone.model.segment import Segment, SegmentId, SegmentStatus
from packstone.pipeline.table import Table
from packstone.runs import clock as run_clock
from packstone.runs.clock import system_clock
from packstone.storage.local import LocalFileIO
from packstone.tables.segments.format.commit import commit_edit
from packstone.tables.segments.format.edits import Change, begin_compaction
from packstone.tables.segments.load_options import LoadOptions
from packstone.tables.segments.options import SegmentOptions, parse_segment_ids

IO = LocalFileIO()
DAY_SECONDS = 86_400


@dataclass(frozen=True)
class Example:
    """Segments as ``model.segment`` writes them, a command, what it merges and what is left."""

    name: str
    segments: str
    merges: str = ""  # "0 1 -> 0.1; …"
    left: str = ""
    levels: str = "4,3"
    command: str = "minor"
    more: dict = field(default_factory=dict)  # other properties
    loads: int = 0  # loads after that, each with its merge if the table asks for it

    def __str__(self):
        return self.name


def loads(first, last):
    """Ids of loads."""
    return " ".join(map(str, range(first, last + 1)))


AUTO = {"AUTO_LOAD_MERGE": "true"}
E12 = [f"{loads(a, a + 3)} -> {a}.1" for a in range(0, 36, 4)]
E12 += [f"{a}.1 {a + 4}.1 {a + 8}.1 -> {a}.2" for a in (0, 12, 24)]
EXAMPLES = [
    Example("E1", "0 1 2", left="0 1 2"),
    Example("E2", "0 1 2 3", "0 1 2 3 -> 0.1", "0.1"),
    Example("E3", "0 1 2 3 4 5", "0 1 2 3 -> 0.1", "0.1 4 5"),
    Example("E4", "0.1 4 5 6", left="0.1 4 5 6"),
    Example("E5", "0.1 4 5 6 7", "4 5 6 7 -> 4.1", "0.1 4.1"),
    Example("E6", "0.1 4.1 8.1", "0.1 4.1 8.1 -> 0.2", "0.2"),
    Example("E7", loads(0, 11), "; ".join([*E12[:3], "0.1 4.1 8.1 -> 0.2"]), "0.2"),
    Example("E8", "0.1 4.1 8.1 12 13 14 15", "0.1 4.1 8.1 -> 0.2; 12 13 14 15 -> 12.1", "0.2 12.1"),
    Example("E9", "0.1 4.1 5 6 7 8 9.1", "5 6 7 8 -> 5.1; 0.1 4.1 5.1 -> 0.2", "0.2 9.1"),
    Example("E11", "0.2 12.1 16.1 20.1", "12.1 16.1 20.1 -> 12.2", "0.2 12.2"),
    Example("E12", loads(0, 35), "; ".join(E12), "0.2 12.2 24.2"),
    Example("E12 ours, a third level", "0.2 12.2 24.2", "0.2 12.2 24.2 -> 0.3", "0.3", levels="4,3,3"),
    Example("E13", "0 1 2", "0 1 2 -> 0.1", "0.1", levels="3"),
    Example("E14", "0.1 3.1 6.1", left="0.1 3.1 6.1", levels="3"),
    Example("E15", "0 1 2 3", "0 1 -> 0.1; 2 3 -> 2.1", "0.1 2.1", levels="2,1"),
    Example("E16", "", "0 1 -> 0.1; 2 3 -> 2.1", "0.1 2.1", levels="2,0", more=AUTO, loads=4),
    Example("E17", "0.1 4.1 5 6", "0.1 4.1 -> 0.2", "0.2 5 6", levels="0,2"),
    Example("E18", loads(0, 9), left=loads(0, 9), levels="0,2"),
    Example("E19", "0 1", left="0 1", levels="1,3"),
    Example("E21", "", "0 1 2 3 -> 0.1; 4 5 6 7 -> 4.1; 0.1 4.1 -> 0.2", "0.2", levels="4,2", more=AUTO, loads=8),
    Example("E22", "", left=loads(0, 7), more={"AUTO_LOAD_MERGE": "false"}, loads=8),
    Example(
        "E23", "", "0 1 2 -> 0.1", "0.1 3 4 5", levels="3,2", more=AUTO | {"COMPACTION_PRESERVE_SEGMENTS": 2}, loads=6
    ),
    Example(
        "E24",
        "",
        "0 1 2 -> 0.1; 3 4 5 -> 3.1; 0.1 3.1 -> 0.2",
        "0.2 6 7",
        levels="3,2",
        more=AUTO | {"COMPACTION_PRESERVE_SEGMENTS": 2},
        loads=8,
    ),
    Example("E25", "0.1 4.1 8.1", left="0.1 4.1 8.1", more={"COMPACTION_PRESERVE_SEGMENTS": 1}),
    Example("E26", loads(0, 5), left=loads(0, 5), more={"COMPACTION_PRESERVE_SEGMENTS": 10}),
    Example(
        "E27 ours, the next window",
        "0 1 2@1 3@1 4@1 5@1",
        "2 3 4 5 -> 2.1",
        "0 1 2.1",
        more={"ALLOWED_COMPACTION_DAYS": 1},
    ),
    Example(
        "E28 ours, days stay apart",
        "0 1 2@1 3@1 4@1 5@1",
        "0 1 -> 0.1; 2 3 4 5 -> 2.1",
        "0.1 2.1",
        command="major",
        more={"ALLOWED_COMPACTION_DAYS": 1},
    ),
    Example("E29", "0 1@1 2@1 3@1 4@1", "1 2 3 4 -> 1.1", "0 1.1", more={"ALLOWED_COMPACTION_DAYS": 1}),
    Example(
        "E30 to its end",
        "0 1@1 2@2 3@3",
        "0 1 -> 0.1; 0.1 2 -> 0.2; 0.2 3 -> 0.3",
        "0.3",
        command="major",
        more={"ALLOWED_COMPACTION_DAYS": 2},
    ),
    Example(
        "E31 to its end",
        "0 1@2 2@3",
        "0 1 -> 0.1; 0.1 2 -> 0.2",
        "0.2",
        command="major",
        more={"ALLOWED_COMPACTION_DAYS": 3},
    ),
    Example("E32", "0 1@5 2@10", left="0 1 2", command="major", more={"ALLOWED_COMPACTION_DAYS": 1}),
    Example(
        "E33 with 100", "0 1@5 2@10", "0 1 2 -> 0.1", "0.1", command="major", more={"ALLOWED_COMPACTION_DAYS": 100}
    ),
    Example(
        "E34",
        "0 1=marked-for-delete 2=compacted 3=in-progress 4=partial-success 5",
        "0 4 5 -> 0.1",
        "0.1",
        levels="3,2",
    ),
    Example(
        "E38 before",
        "0:0.1 1:0.1 2:0.1 3:3 4:0.1",
        "0 1 -> 0.1; 2 4 -> 2.1; 0.1 2.1 -> 0.2",
        "0.2 3",
        levels="2,2",
        more={"MINOR_COMPACTION_SIZE": 1},
    ),
    Example(
        "E38", "0.1:0.2 2:0.1 3:3", "2 3 -> 2.1; 0.1 2.1 -> 0.2", "0.2", levels="2,2", more={"MINOR_COMPACTION_SIZE": 5}
    ),
    Example("E39", "0.1+major 2 3", "2 3 -> 2.1", "0.1 2.1", levels="2,2"),
    Example("E40", "0:100 1:200 2:300", "0 1 2 -> 0.1", "0.1", command="major"),
    Example("E41", "0:100 1:2000 2:300 3:300", "2 3 -> 2.1", "0 1 2.1", command="major"),
    Example("E45", "0:500 1:524", left="0 1", command="major"),
    Example("E46", "0:500 1:523", "0 1 -> 0.1", "0.1", command="major"),
    Example("E49", "0:3 1:4", left="0 1", command="major", more={"MAJOR_COMPACTION_SIZE": "1MB"}),
    Example("E49 with 10", "0:3 1:4", "0 1 -> 0.1", "0.1", command="major", more={"MAJOR_COMPACTION_SIZE": 10}),
    Example("E50", "0.1+major 2 3", "0.1 2 3 -> 0.2", "0.2", command="major"),
    Example("E51", "0.1+major", left="0.1 2 3", command="major", loads=2),
    Example("E52", "0 1 2 3", "0 1 -> 0.1", "0.1 2 3", command="major", more={"COMPACTION_PRESERVE_SEGMENTS": 2}),
    Example("E53", "0:1 1:2", left="0 1", command="major", more={"MAJOR_COMPACTION_SIZE": 0}),
    Example("E54", loads(0, 4), "1 2 3 -> 1.1", "0 1.1 4", command="custom 1,2,3"),
    Example("E55", loads(0, 4), "1 3 -> 1.1", "0 1.1 2 4", command="custom 3,1"),
    Example("E56", "0.2 4.1 8", "0.2 4.1 -> 0.3", "0.3 8", command="custom 0.2,4.1"),
    Example("E58 minor, none", ""),
    Example("E58 minor, one", "0", left="0"),
    Example("E58 major, none", "", command="major"),
    Example("E58 major, one", "0", left="0", command="major"),
]


class Scene:
    """A real table, made to look like an example."""

    def __init__(self, path):
        self.clock = Clock()
        seconds = self.clock.now_ms // 1000
        self.clock.move(DAY_SECONDS - seconds % DAY_SECONDS + 3600)  # an hour after midnight: nothing here takes a day
        self.day = 0
        self.lake = SegmentLake(path)

    def make(self, example):
        """Create the table and all its segments."""
        properties = {"COMPACTION_LEVEL_THRESHOLD": example.levels, "SORT_COLUMNS": "id", **example.more}
        self.lake.create(**properties)
        items = [Segment.parse(text) for text in example.segments.split()]
        for at, item in enumerate(items):
            end = items[at + 1].id.load if at + 1 < len(items) else item.id.load + (1 if not item.id.merges else 4)
            if item.is_major:
                end = min(end, item.id.load + 2)
            self._make_segment(item, end)
        self._set_sizes({item.id: item.size_bytes for item in items if item.size_bytes})
        return self

    def _make_segment(self, item, end):
        first, merges = item.id.load, item.id.merges
        self.clock.move((item.load_day - self.day) * DAY_SECONDS)
        self.day = item.load_day
        if item.status is SegmentStatus.IN_PROGRESS:
            self.lake.begin()
            return
        is_alone = end - first == 1 and (merges or item.status is SegmentStatus.COMPACTED)
        for _ in range(first, end):
            # One alone is merged only if that sorts it.
            self.load(scope="NO_SORT" if is_alone else None, bad=item.status is SegmentStatus.PARTIAL_SUCCESS)
        members = list(map(str, range(first, end)))
        for merge in range(1, merges + 1):
            taken = members if merge == merges else members[:2]
            self.compact("major" if item.is_major else f"custom {','.join(taken)}")
            members = [f"{first}.{merge}", *members[len(taken) :]]
        if item.status is SegmentStatus.COMPACTED:
            self.compact(f"custom {first}")
            self.lake.delete(f"{first}.1")
        if item.status is SegmentStatus.MARKED_FOR_DELETE:
            self.lake.delete(str(first))

    def load(self, *, scope=None, bad=False):
        """Three rows, out of order; with a fourth that is bad if requested."""
        number = self.lake.status()["next_load"]
        ids = [str(number * 2), str(number), None, *(["no number"] if bad else [])]
        data = pa.table({"id": pa.array(ids), "v": pa.array([f"{number}-{at}" for at in range(len(ids))])})
        options = LoadOptions(sort_scope=scope, bad_records="IGNORE")
        return Table(self.lake.table, io=IO).segments.load(data, options=options)

    def compact(self, command):
        """Run a command as text."""
        return Table(self.lake.table, io=IO).compact(to_options(command))

    def _set_sizes(self, sizes):
        def edit(status):
            entries = [replace(one, data_bytes=sizes.get(one.id, one.data_bytes)) for one in status.entries]
            return Change(status=replace(status, entries=tuple(entries)))

        if sizes:
            commit_edit(IO, self.lake.table, edit, clock=system_clock(), operation="test")

    def statuses(self):
        """All entries that are not live, as the strategies write them."""
        return {one: entry["status"] for one, entry in self.lake.retired().items()}


def to_options(command):
    """``minor``, ``major`` or ``custom 1,2``."""
    strategy, _, ids = command.partition(" ")
    return SegmentOptions(strategy=strategy, ids=parse_segment_ids(ids) if ids else ())


def described(outcome):
    """Merges in the examples' words."""
    return [f"{' '.join(unit.inputs)} -> {unit.partition}" for unit in outcome.units]


def split(text):
    """The merges of an example."""
    return sorted(re.split(r"; ", text)) if text else []


@pytest.fixture
def scene(monkeypatch):
    """A table to be, with a clock that can be moved."""
    with quick_folder() as folder:
        made = Scene(folder / "t")
        monkeypatch.setattr(run_clock, "time", made.clock)
        yield made


@pytest.mark.parametrize("example", EXAMPLES, ids=str)
@pytest.mark.sample(4)
def test_example(scene, example):
    """It merges what the example says and names it so; the plan says the same before; no row is lost or changed."""
    lake = scene.make(example).lake
    done = []
    for _ in range(example.loads):
        report = scene.load()
        assert report.warnings == ()
        done += described(report.merged) if report.merged is not None else []
    before = lake.count()
    options = to_options(example.command)
    if not example.loads:
        planned = described(Table(lake.table, io=IO).plan(options).outcome)
        outcome = scene.compact(example.command)
        done += described(outcome)
        assert sorted(planned) == sorted(done)
        assert outcome.status is (Status.COMMITTED if done else Status.NOTHING_TO_DO), outcome.skipped
    assert sorted(done) == split(example.merges)
    assert lake.ids() == example.left.split()
    assert lake.count() == before
    assert lake.problems() == []
    if not example.loads:
        check_fixpoint(scene, example)


def check_fixpoint(scene, example):
    """A second command has nothing to do, or, if it names segments, says that they are gone."""
    if example.command.startswith("custom"):
        with pytest.raises(InvalidInputError, match=r"(not valid|does not exist|is compacted into)"):
            scene.compact(example.command)
    else:
        assert scene.compact(example.command).status is Status.NOTHING_TO_DO


def test_retired_entries_tell_what_became_of_them(scene):
    """After E34: compacted ones name their merge, deleted ones do not, the load at work is where it was."""
    (example,) = [one for one in EXAMPLES if one.name == "E34"]
    lake = scene.make(example).lake
    scene.compact("minor")
    assert scene.statuses() == {
        "0": "compacted",
        "1": "marked-for-delete",
        "2": "compacted",
        "2.1": "marked-for-delete",
        "4": "compacted",
        "5": "compacted",
    }
    assert {one: lake.retired()[one]["merged_into"] for one in ("0", "4", "5", "2", "1")} == {
        "0": "0.1",
        "4": "0.1",
        "5": "0.1",
        "2": "2.1",
        "1": None,
    }
    assert lake.live()["0.1"]["status"] == "partial-success"
    assert [entry["load"] for entry in lake.status()["entries"] if entry["status"] == "in-progress"] == [3]


@pytest.mark.parametrize(
    ("segments", "command", "why"),
    [
        ("0 1=marked-for-delete 2 3", "custom 1,2,3", "Segment 1"),  # E57
        ("0 1=compacted 2", "custom 1,2", "Segment 1"),
        ("0 1=in-progress 2", "custom 1,2", "Segment 1"),
        ("0 1", "custom 0,7", "Segment 7"),
        ("0 1", "custom", "needs the ids"),
        ("0 1", "minor 0,1", "--ids goes with"),
        ("0 1", "custom 0,0", "twice"),
    ],
)
def test_custom_errors(scene, segments, command, why):
    """E57 and its like: one sentence, and nothing is merged."""
    lake = scene.make(Example("custom", segments)).lake
    before = lake.versions()
    with pytest.raises(InvalidInputError, match=why):
        scene.compact(command)
    assert lake.versions() == before


def test_days_out_of_range_are_refused(scene):
    """E33, ours: CarbonData switches the rule off, we say that 101 is wrong."""
    with pytest.raises(InvalidInputError, match="ALLOWED_COMPACTION_DAYS"):
        scene.make(Example("E33", "0 1", more={"ALLOWED_COMPACTION_DAYS": 101}))


def test_two_loads_between_two_majors(scene):
    """E50 whole: major, two loads, major, two loads, major."""
    lake = scene.make(Example("E50", "0 1")).lake
    assert described(scene.compact("major")) == ["0 1 -> 0.1"]
    for first, rest, merged in (("0.1", "2 3", "0.2"), ("0.2", "4 5", "0.3")):
        scene.load()
        scene.load()
        assert described(scene.compact("major")) == [f"{first} {rest} -> {merged}"]
        assert lake.ids() == [merged]


def test_what_another_compaction_holds(scene):
    """E59: no 0.1 is made, and the caller gets the reason; ours leaves what is taken alone instead of refusing all."""
    lake = scene.make(Example("E59", "0 1 2")).lake
    ids = tuple(map(SegmentId, range(3)))
    open_run(IO, lake.table, command="compact", run="a" * 16)
    commit_edit(
        IO,
        lake.table,
        lambda status: begin_compaction(status, attempt="a" * 16, inputs=ids, output=SegmentId(0, 1), now_ms=0),
        clock=system_clock(),
        operation="compact",
    )
    outcome = scene.compact("major")
    assert outcome.units == ()
    assert "being merged into 0.1" in outcome.skipped[0].why
    assert scene.compact("custom 0,1").status is Status.CONFLICT
    assert lake.ids() == ["0", "1", "2"]
