"""Deleting rows: what every reader sees, what a compaction makes of it, who wins a race, and what a kill leaves."""

import datetime as dt
import signal
import threading
from collections import Counter

import duckdb
import pyarrow as pa
import pytest
from compact_calls import segment_clean
from segment_lake import SegmentLake
from segment_model import quick_folder

from packstone import col
from packstone.errors import CorruptionError, InvalidInputError, RefusedError
from packstone.model.outcome import SkipKind, Status
from packstone.model.segment import SegmentId
from packstone.pipeline.table import Table
from packstone.runs.engine import InlineEngine
from packstone.storage.faulty import FaultyFileIO
from packstone.storage.local import LocalFileIO
from packstone.tables.segments.options import SegmentOptions

IO = LocalFileIO()
KILLED = -signal.SIGKILL
SCHEMA = "id long, name string, price double, day date"


def make_rows(seed, count=300):
    """Rows with nulls, NaN, and values that repeat."""
    names, prices = (None, "a", "b", "ä"), (None, 1.5, -0.0, float("nan"), 7.25)
    return [
        {
            "id": None if at % 37 == 0 else (at * 7 + seed) % 100,
            "name": names[(at + seed) % 4],
            "price": prices[at % 5],
            "day": dt.date(2024, 1, 1 + at % 9),
        }
        for at in range(count)
    ]


def make_lake(path, *, loads=3, **properties):
    """A table of some loads, in small row groups."""
    lake = SegmentLake(path).create(SCHEMA, **{"COMPACTION_LEVEL_THRESHOLD": "3,0", **properties})
    for seed in range(loads):
        lake.load(make_rows(seed), runs=2, files=2, group_rows=40)
    return lake


@pytest.fixture
def lake(request, tmp_path):
    """Three loads, sorted by id; a test may ask for another table."""
    return make_lake(tmp_path / "t", **getattr(request, "param", {"SORT_COLUMNS": "id"}))


SORTED_OR_NOT = pytest.mark.parametrize("lake", [{}, {"SORT_COLUMNS": "id"}], ids=["unsorted", "sorted"], indirect=True)


def open_table(lake, engine=None):
    """The table in this process."""
    return Table(lake.table, io=IO, engine=lambda: engine or InlineEngine(IO))


def delete(lake, where, **more):
    """Delete rows in this process."""
    return open_table(lake).segments.delete_rows(where, **more)


def compact(lake, engine=None, **options):
    """Compact in this process."""
    return open_table(lake, engine).compact(SegmentOptions(**options))


def by_duckdb(lake, *filters):
    """The rows of the table after DELETE statements, which DuckDB runs on the rows of the loads; the counts of each."""
    with duckdb.connect() as connection:
        connection.register("loaded", pa.concat_tables([lake.read()]))
        connection.execute("create table t as from loaded")
        counts = [connection.execute(f"delete from t where {one}").fetchall()[0][0] for one in filters]
        return Counter(map(str, connection.execute("from t").fetchall())), counts


def seen(lake, **when):
    """The rows that a scan returns."""
    rows = open_table(lake).scan(**when).to_arrow()
    with duckdb.connect() as connection:
        connection.register("found", rows)
        return Counter(map(str, connection.execute("from found").fetchall()))


FILTERS = (
    "id = 7",
    "id between 20 and 45",
    "name = 'a' and price > 1",
    "not (name = 'b' or id < 60)",
    "price is null",
    "id in (61, 62, 63) or name is null",
    "day >= date '2024-01-08'",
)


@SORTED_OR_NOT
def test_duckdb_deletes_the_same_rows(lake):
    """Filter after filter: the same number, the same rows left, whether a row is null, NaN or deleted already."""
    expected, counts = by_duckdb(lake, *FILTERS)
    found = []
    for where in FILTERS:
        planned = delete(lake, where, dry_run=True)
        found.append(delete(lake, where).rows)
        assert planned.rows == found[-1]
        assert open_table(lake).scan().count() == sum(seen(lake).values()) == 900 - sum(found)
    assert found == counts
    assert seen(lake) == expected == Counter({str(row): many for row, many in lake.count().items()})
    for where in ("id > 50", "name = 'a'", "price = 7.25"):
        scan = open_table(lake).scan(where=where)
        assert scan.count() == scan.to_arrow().num_rows == len(list(expected_of(expected, lake, where)))
    assert lake.problems() == []
    assert len(list((lake.path / "Metadata/deletes").iterdir())) > 3, "older versions keep their delete files"
    assert all(entry["delete_file"] for entry in lake.live().values())


def expected_of(expected, lake, where):
    """The rows of DuckDB that a filter selects."""
    rows, _ = by_duckdb(lake, *FILTERS, f"not coalesce({where}, false)")
    assert not rows - expected
    yield from rows.elements()


def test_null_is_not_true(lake):
    """Rows for which the filter is null stay, under NOT too: three-valued logic."""
    nulls = sum(row["name"] is None for seed in range(3) for row in make_rows(seed))
    delete(lake, "name = 'a'")
    delete(lake, ~(col("name") == "a"))
    assert sum(seen(lake).values()) == nulls
    assert open_table(lake).scan(where="name is null").count() == nulls


@SORTED_OR_NOT
@pytest.mark.parametrize("strategy", ["minor", "major", "custom"])
@pytest.mark.sample(2)
def test_a_compaction_leaves_deleted_rows_out(lake, strategy):
    """Each strategy writes the rows that readers see, proves it, and can prove it again later."""
    expected, _ = by_duckdb(lake, "id < 40", "name = 'b'")
    delete(lake, "id < 40")
    delete(lake, "name = 'b'")
    ids = (SegmentId(0), SegmentId(1), SegmentId(2)) if strategy == "custom" else ()
    outcome = compact(lake, strategy=strategy, ids=ids, task_bytes=1000)
    assert outcome.status is Status.COMMITTED
    assert lake.ids() == ["0.1"]
    assert lake.live()["0.1"]["delete_file"] is None
    assert seen(lake) == expected
    assert lake.problems() == []
    report = open_table(lake).verify(outcome.run)
    assert report.to_json()["status"] == "verified"
    assert report.to_json()["files_with_originals"] == report.to_json()["files"] > 0
    assert open_table(lake).restore(outcome.run).parts == ("0 1 2",)
    assert seen(lake) == expected, "the inputs are live again with their deleted rows"
    assert lake.ids() == ["0", "1", "2"]


def test_a_merge_under_deleted_rows_is_not_undone(lake):
    """Its inputs still have the rows that were deleted from the merged segment."""
    run = compact(lake).run
    delete(lake, "id = 7")
    before = seen(lake)
    with pytest.raises(RefusedError, match=r"rows of segment 0\.1 were deleted after it was merged"):
        open_table(lake).restore(run)
    assert seen(lake) == before


def test_a_segment_with_many_deleted_rows_is_rewritten(tmp_path):
    """At the threshold of the table; below it, or with 0, the delete file stays; the number of merges is its level."""
    lake = make_lake(tmp_path / "t", COMPACTION_LEVEL_THRESHOLD="9,0", COMPACTION_DELETED_PCT=30)
    delete(lake, "id < 30")
    expected = seen(lake)
    entries = lake.live().values()
    shares = [100 * one["deleted_rows"] // one["rows"] for one in entries]
    assert max(shares) < 30
    assert compact(lake).status is Status.NOTHING_TO_DO
    lake.alter(COMPACTION_DELETED_PCT="0")
    delete(lake, "id < 50 and day < date '2024-01-09'")
    expected = seen(lake)
    assert compact(lake).status is Status.NOTHING_TO_DO
    lake.alter(COMPACTION_DELETED_PCT="30")
    outcome = compact(lake)
    assert [unit.partition for unit in outcome.units] == ["0.1", "1.1", "2.1"]
    assert outcome.units[0].why.startswith("deleted-rows: ")
    assert seen(lake) == expected
    assert not any(one["delete_file"] for one in lake.live().values())
    assert compact(lake).status is Status.NOTHING_TO_DO


def test_one_segment_is_rewritten_by_name(lake):
    """If it has deleted rows, however few; without any, there is nothing to do."""
    delete(lake, "id = 7")
    expected = seen(lake)
    outcome = compact(lake, strategy="custom", ids=(SegmentId(1),))
    assert [unit.partition for unit in outcome.units] == ["1.1"]
    assert seen(lake) == expected
    lake.alter(SORT_COLUMNS=None, SORT_SCOPE=None)
    assert compact(lake, strategy="custom", ids=(SegmentId(1, 1),)).status is Status.NOTHING_TO_DO


def test_a_segment_without_rows_is_retired(lake):
    """In the same version; the others have no delete file."""
    lake.load([{"id": 1000 + at} for at in range(50)], group_rows=10)
    report = delete(lake, "id >= 1000")
    assert [(str(one.id), one.rows, one.is_retired) for one in report.segments] == [("3", 50, True)]
    assert lake.ids() == ["0", "1", "2"]
    assert lake.retired()["3"]["status"] == "marked-for-delete"
    assert not (lake.path / "Metadata/deletes").exists()
    assert delete(lake, "true").rows == 900
    assert lake.ids() == []
    assert delete(lake, "true").to_json()["status"] == "nothing-to-do"


def test_time_travel_sees_the_rows_of_its_version(lake):
    """By number and by moment, until clean removes the version; then the old delete files go, too."""
    first = lake.versions()[-1]
    whole = seen(lake)
    second = delete(lake, "id < 30").version
    some = seen(lake)
    delete(lake, "id < 60")
    now = seen(lake)
    assert (seen(lake, version=first), seen(lake, version=second)) == (whole, some)
    written = {one.version: one.written_ms for one in open_table(lake).segments.versions()}
    moment = dt.datetime.fromtimestamp(written[second] / 1000, tz=dt.UTC)
    assert seen(lake, as_of=moment) == some
    assert [one.rows for one in open_table(lake).segments.versions(limit=3)] == [
        sum(now.values()), sum(some.values()), 900,
    ]  # fmt: skip
    assert len(list((lake.path / "Metadata/deletes").iterdir())) == 6
    segment_clean(IO, lake.table, days=3)
    assert len(list((lake.path / "Metadata/deletes").iterdir())) == 6, "version 2 may still be needed"
    segment_clean(IO, lake.table, days=30)
    assert len(list((lake.path / "Metadata/deletes").iterdir())) == 3
    assert seen(lake) == now
    assert compact(lake).status is Status.COMMITTED
    segment_clean(IO, lake.table, days=60)
    segment_clean(IO, lake.table, days=90)
    assert list((lake.path / "Metadata/deletes").iterdir()) == []
    assert seen(lake) == now
    assert segment_clean(IO, lake.table, days=90)["unknown"] == []


def test_a_label_stays_with_its_rows(tmp_path):
    """A load whose rows are partly deleted is not loaded again; without rows, its label is free, as after `delete`."""
    lake = SegmentLake(tmp_path / "t").create("id long")
    rows = pa.table({"id": list(range(10))})
    table = open_table(lake).segments
    table.load(rows, label="monday")
    table.delete_rows("id < 9")
    assert table.load(rows, label="monday").status == "already-loaded"
    table.delete_rows("id = 9")
    assert table.load(rows, label="monday").status == "success"


def test_other_readers_are_not_given_files_with_deleted_rows(lake):
    """The list of files would show them: it is refused with what to do, and is right again after that."""
    segments = open_table(lake).segments
    assert len(segments.files().paths) == 12
    delete(lake, "id = 7 and name = 'a'")
    found = segments.files()
    assert found.to_json()["rows"] == sum(seen(lake).values())
    with pytest.raises(RefusedError, match="still in the files, and other readers would return them"):
        found.paths  # noqa: B018 - a property that refuses
    compact(lake)
    assert len(segments.files().paths) == len(lake.files())


def test_reports_count_rows_that_readers_see(lake):
    """`show`, `versions` and `health`, with the deleted ones beside them."""
    rows = delete(lake, "id < 50").rows
    table = open_table(lake)
    shown = [one.to_json() for one in table.segments.show().rows]
    assert sum(one["rows"] for one in shown) == 900 - rows
    assert sum(one["deletedRows"] for one in shown) == rows
    health = table.health().to_json()
    assert (health["rows"], health["deleted_rows"], health["segments_with_deletes"]) == (900 - rows, rows, 3)
    (hazard,) = [one for one in health["hazards"] if one["hazard"] == "deleted-rows"]
    assert "3 segments with 20% or more deleted rows (0, 1, 2)" in hazard["evidence"]
    gone = delete_by_id(lake, "1")
    assert gone.rows == shown[1]["rows"]


def delete_by_id(lake, *ids):
    """Delete whole segments, as before."""
    return open_table(lake).segments.delete(ids=ids)


def test_a_stream_leaves_out_what_was_deleted_before_it_came(lake):
    """The loads since a version are read with the deletes up to the last version of the batch."""
    from packstone.tables.segments.scan import SegmentSource

    first = lake.versions()[-1]
    lake.load([{"id": 500 + at} for at in range(20)])
    middle = lake.versions()[-1]
    delete(lake, "id >= 515 or id = 7")

    def read(last):
        found = SegmentSource.find_added(IO, lake.table, range(first, last + 1))
        from packstone.query.scan.read_split import read_split
        from packstone.query.scan.request import Selection

        plans = [source.plan(Selection(columns=("id",))) for source in found]
        return sorted(
            value
            for plan in plans
            for split in plan.splits
            for batch in read_split(IO, split)
            for value in batch.column(0).to_pylist()
        )

    assert seen(lake, version=middle)
    assert read(middle) == list(range(500, 520))
    assert read(lake.versions()[-1]) == list(range(500, 515))


def test_what_cannot_be_deleted_is_refused(lake):
    """Before anything is written."""
    before = lake.versions()
    for where, why in (
        ("", "The filter is empty"),
        ("idd = 7", "names 'idd', which is not a column"),
        ("id = ", "filter"),
    ):
        with pytest.raises(InvalidInputError, match=why):
            delete(lake, where)
    with pytest.raises(RefusedError, match="needs Spark"):
        delete(lake, "length(name) > 1")
    assert lake.versions() == before


def test_a_damaged_or_missing_delete_file_stops_every_reader(lake):
    """Deleted rows are never shown; health names the file."""
    delete(lake, "id < 50")
    path = lake.path / "Metadata/deletes" / lake.live()["1"]["delete_file"]
    data = path.read_bytes()
    path.write_bytes(data.replace(b'"rows":', b'"rowz":', 1))
    with pytest.raises(CorruptionError, match=path.name):
        seen(lake)
    assert compact(lake).status is Status.FAILED
    path.unlink()
    with pytest.raises(CorruptionError, match=rf"{path.name} is missing, but version \d+ of .* names it"):
        seen(lake)
    with pytest.raises(CorruptionError, match=rf"{path.name} is missing, but .* needs it; .* Nothing was deleted"):
        delete(lake, "id < 60")
    with pytest.raises(CorruptionError, match=f"{path.name}, a file of segment 1, is missing"):
        open_table(lake).segments.files()
    outcome = compact(lake)
    assert outcome.status is Status.FAILED
    assert f"The delete file {path.name} of segment 1 is missing" in outcome.skipped[0].why
    assert any(path.name in one["evidence"] for one in open_table(lake).health().to_json()["hazards"])


# ---- races ----


class Meddling(InlineEngine):
    """Does something to the table when the tasks of a compaction have run, before its commit."""

    def __init__(self, meddle):
        super().__init__(IO)
        self._meddle = meddle

    def run(self, job, tasks, *, staging, what, on_progress):
        """Run all tasks, then meddle."""
        results = list(super().run(job, tasks, staging=staging, what=what, on_progress=on_progress))
        self._meddle()
        return iter(results)


def test_a_compaction_that_was_overtaken_by_a_delete_is_lost(lake):
    """No deleted row comes back; the next compaction makes the merge."""
    expected, _ = by_duckdb(lake, "id < 10")
    outcome = compact(lake, Meddling(lambda: delete(lake, "id < 10")))
    assert outcome.status is Status.CONFLICT
    assert outcome.skipped[0].kind is SkipKind.CONFLICT
    assert "rows were deleted from it since it was read" in outcome.skipped[0].why
    assert lake.ids() == ["0", "1", "2"]
    assert seen(lake) == expected
    assert lake.open_runs() == []
    assert compact(lake).status is Status.COMMITTED
    assert seen(lake) == expected


def test_a_delete_of_other_segments_does_not_disturb_a_compaction(lake):
    """Only a merge that read the rows is lost."""
    lake.load([{"id": 5000}, {"id": 5001}])
    expected, _ = by_duckdb(lake, "id = 5000")
    outcome = compact(lake, Meddling(lambda: delete(lake, "id = 5000")))
    assert outcome.status is Status.COMMITTED
    assert seen(lake) == expected


class MeddlingFileIO(FaultyFileIO):
    """Does something to the table before a delete writes its first delete file."""

    def __init__(self, meddle):
        super().__init__(IO)
        self._meddle = meddle

    def write_new(self, path, data):
        """Meddle once."""
        if "/deletes/" in path and self._meddle is not None:
            meddle, self._meddle = self._meddle, None
            meddle()
        super().write_new(path, data)


def delete_while(lake, where, meddle):
    """Delete, while somebody else does something between the scan and the commit."""
    return Table(lake.table, io=MeddlingFileIO(meddle)).segments.delete_rows(where)


@pytest.mark.parametrize(
    ("meddle", "more"),
    [
        (compact, ()),
        (lambda lake: delete(lake, "id < 40 or name = 'a'"), ("id < 40 or name = 'a'",)),
        (lambda lake: (delete(lake, "id < 40"), compact(lake)), ("id < 40",)),
        (lambda lake: delete(lake, "true"), ("true",)),
    ],
    ids=["compact", "delete", "delete and compact", "delete all"],
)
def test_a_delete_that_was_overtaken_finds_its_rows_again(lake, meddle, more):
    """Nothing that was deleted by either is left, nothing else is gone, and no file is left behind."""
    expected, _ = by_duckdb(lake, "id between 30 and 60", *more)
    delete_while(lake, "id between 30 and 60", lambda: meddle(lake))
    assert seen(lake) == expected
    assert lake.problems() == []
    named = {one["delete_file"] for number in lake.versions() for one in lake.live(number).values()}
    assert {path.name for path in (lake.path / "Metadata/deletes").glob("*")} <= named


def test_rows_that_are_loaded_meanwhile_stay(lake):
    """The delete is of the version that it read; an overwrite leaves it nothing to do."""
    new = [{"id": 50, "name": "new"}]
    expected, _ = by_duckdb(lake, "id = 50")
    delete_while(lake, "id = 50", lambda: lake.load(new))
    assert seen(lake) == expected + Counter([str((50, "new", None, None))])
    delete_while(lake, "id = 51", lambda: lake.load(new, overwrite=True))
    assert lake.ids() == ["4"]
    assert sum(seen(lake).values()) == 1


def test_many_deletes_and_compactions_at_once(tmp_path):
    """Threads that delete and one that compacts: every delete has its effect, no other row is gone."""
    lake = make_lake(tmp_path / "t", loads=4, SORT_COLUMNS="id", COMPACTION_LEVEL_THRESHOLD="2,2")
    wheres = [f"id between {at * 10} and {at * 10 + 5}" for at in range(6)]
    expected, _ = by_duckdb(lake, *wheres)
    errors = []

    def work(act):
        try:
            act()
        except Exception as error:  # noqa: BLE001 - the test reports it
            errors.append(error)

    acts = [lambda where=where: delete(lake, where) for where in wheres]
    threads = [threading.Thread(target=work, args=(act,)) for act in (*acts, lambda: compact(lake))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert seen(lake) == expected
    assert lake.problems() == []
    compact(lake)
    assert seen(lake) == expected


# ---- kills ----


def check_killed(children, pick):
    """Kill a delete at the steps that ``pick`` chooses; all or nothing, and clean removes what it left."""
    import shutil

    with quick_folder() as root:
        lake = make_lake(root / "t", loads=2)
        delete(lake, "id < 5")
        lake.load([{"id": 300}])
        shutil.copytree(root / "t", root / "aside")
        before = seen(lake)
        done = children.run("delete_rows", path=lake.table, where="id < 50 or id = 300")
        assert "error" not in done, done
        after = seen(lake)
        found = set()
        for step, moment in pick(len(done["steps"])):
            shutil.rmtree(root / "t")
            shutil.copytree(root / "aside", root / "t")
            fault = {"step": step, "action": "kill", "moment": moment}
            died = children.run("delete_rows", path=lake.table, where="id < 50 or id = 300", fault=fault)
            where = f"killed {moment} step {step}: {done['steps'][step]}"
            assert died["status"] == KILLED, where
            rows = seen(lake)
            assert rows in (before, after), where
            found.add(rows == after)
            assert lake.problems() == [], where
            delete(lake, "id < 50 or id = 300")
            assert seen(lake) == after, where
            for days in (2, 20, 40):
                assert segment_clean(IO, lake.table, days=days)["unknown"] == [], where
            named = {one["delete_file"] for one in lake.live().values()}
            assert {path.name for path in (lake.path / "Metadata/deletes").iterdir()} == named, where
            assert not list(lake.path.rglob(".new-*")), where
            assert seen(lake) == after, where
        assert found == {True, False}, "it was always killed on one side of its commit"


def test_a_delete_killed_at_some_steps(children):
    """Every third step and the last ones, in turns before and after."""

    def pick(count):
        steps = sorted({*range(0, count, 3), *range(count - 2, count)})
        return [(step, "before" if at % 2 else "after") for at, step in enumerate(steps)]

    check_killed(children, pick)


@pytest.mark.slow
def test_a_delete_killed_at_every_step(children):
    """All of them, before and after."""
    check_killed(children, lambda count: [(step, moment) for step in range(count) for moment in ("before", "after")])


@pytest.mark.parametrize("where", [None, 5, b"", b"true", "", "  ", [], True, {"id": 1}])
def test_what_is_not_a_filter_deletes_nothing(lake, where):
    """A variable that was never set must not empty the table; a scan without a filter reads all rows."""
    before = lake.versions()
    for dry_run in (True, False):
        with pytest.raises(InvalidInputError, match="filter"):
            delete(lake, where, dry_run=dry_run)
    assert lake.versions() == before


@pytest.mark.parametrize("ids", [None, 0, "0", "01", b"01", [], [None], [""], [b"0"], [True], [-1]])
def test_what_is_not_a_list_of_ids_deletes_nothing(lake, ids):
    """The text "10" is segment 10, or a mistake, and never the segments 1 and 0."""
    before = lake.versions()
    with pytest.raises(InvalidInputError, match="segment"):
        open_table(lake).segments.delete(ids=ids)
    with pytest.raises(InvalidInputError, match=r"segment|Segment"):
        compact(lake, strategy="custom", ids=ids)
    assert lake.versions() == before


def test_ids_of_a_compaction_are_given_as_those_of_a_delete(lake):
    """Numbers and texts, not only values of SegmentId: with these, the segment 0 did not exist."""
    outcome = compact(lake, strategy="custom", ids=[0, "1"])
    assert [unit.inputs for unit in outcome.units] == [("0", "1")]


@pytest.mark.parametrize("run", [None, 5, "", b"", []])
def test_what_is_not_the_id_of_a_run_restores_nothing(lake, run):
    """One sentence for the caller, no TypeError."""
    for verb in (open_table(lake).restore, open_table(lake).verify):
        with pytest.raises(InvalidInputError, match="is not the id of a run"):
            verb(run)
    with pytest.raises(InvalidInputError, match="is not a label"):
        open_table(lake).segments.load(pa.table({"id": [1]}), label=5)
