"""Compactions of a table that another program writes to: choice of buckets, budgets, conflicts, upgrades."""

import json
import os
import shutil
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from paimon_lake import PaimonLake

import packstone
from packstone.errors import InvalidInputError, RefusedError, UnavailableError
from packstone.model.limits import Budget, Filters
from packstone.pipeline.table import Table
from packstone.runs.engine import InlineEngine
from packstone.storage.local import LocalFileIO
from packstone.tables.paimon.options import PaimonOptions, PaimonStrategy

FULL = PaimonOptions(strategy=PaimonStrategy.FULL)
FIXTURES = Path(__file__).parents[2] / "testdata" / "paimon"


@pytest.fixture
def lake(tmp_path):
    """A table of two buckets after three commits that overlap."""
    lake = PaimonLake(tmp_path / "t").create()
    for first in (0, 5, 10):
        lake.append(dict.fromkeys(range(first, first + 10), first))
    return lake


@pytest.fixture
def parted(tmp_path):
    """A table of three partitions with two buckets each."""
    lake = PaimonLake(tmp_path / "p", partitioned=True).create()
    for partition in (1, 2, 3):
        for value in range(3):
            lake.append(dict.fromkeys(range(8), value), partition=partition)
    return lake


class Meddling(InlineEngine):
    """Runs the tasks, and then lets somebody else work on the table, once."""

    def __init__(self, meddle):
        super().__init__(LocalFileIO())
        self._meddle = meddle

    def run(self, job, tasks, **more):
        """Yield all results only when the others are done."""
        results = list(super().run(job, tasks, **more))
        meddle, self._meddle = self._meddle, lambda: None
        meddle()
        return iter(results)


def labels(outcome):
    """The buckets that were touched."""
    return sorted({unit.partition for unit in outcome.units})


def test_rows_stay_and_inputs_stay_on_disk(lake):
    """One snapshot more, the same rows in it and in all earlier ones, not a file removed."""
    before, names = lake.rows(), lake.names()
    outcome = Table(lake.table).compact(FULL)
    assert (outcome.status, outcome.files_before, outcome.files_after) == ("committed", 6, 2)
    assert (outcome.versions, lake.ids()) == ((4,), [1, 2, 3, 4])
    assert (lake.rows(), lake.rows(3)) == (before, before)
    assert names - {"snapshot/LATEST"} <= lake.names()
    assert lake.problems() == []


def test_nothing_is_left_beside_the_table_but_the_runs_record(lake):
    """No staging, no records of names: all that a finished run created is referenced."""
    outcome = Table(lake.table).compact(FULL)
    beside = {str(path.relative_to(lake.path.parent)) for path in lake.path.parent.rglob("*") if path.is_file()}
    own = {name for name in beside if name.startswith(".packstone")}
    folder = f".packstone/t/runs/{outcome.run}"
    assert own == {f"{folder}/{name}.json" for name in ("run", "units-0001", "ended")}


@pytest.mark.parametrize(
    ("options", "filters", "expected"),
    [
        ({}, Filters(where="p = '1' OR p = '3'"), ["p=1", "p=3"]),
        ({}, Filters(where="p >= 2"), ["p=2", "p=3"]),
        ({"buckets": ((1, 1),)}, Filters(), ["p=1", "p=2", "p=3"]),
        ({}, Filters(min_age_seconds=0.001), ["p=1", "p=2", "p=3"]),
        ({}, Filters(min_age_seconds=3600.0), []),
    ],
)
def test_only_the_chosen_buckets_are_touched(parted, options, filters, expected):
    """Partitions by name, by condition, by idle time; buckets by number; the rest of the table stays as it is."""
    rows = parted.rows()
    table = Table(parted.table)
    outcome = table.compact(PaimonOptions(strategy=PaimonStrategy.FULL, **options), filters=filters)
    assert sorted({label.partition("/")[0] for label in labels(outcome)}) == expected
    if "buckets" in options:
        assert {label.rpartition("/")[2] for label in labels(outcome)} == {"bucket-1"}
    assert parted.rows() == rows
    assert parted.problems() == []


@pytest.mark.parametrize(
    ("options", "filters", "word"),
    [
        ({}, Filters(where="q = 1"), "'q', which is not a partition column"),
        ({"overrides": (("bucket", "7"),)}, Filters(), "bucket cannot be set"),
        ({"overrides": (("ignore-delete", "true"),)}, Filters(), "ignore-delete cannot be set"),
        ({"overrides": (("sequence.field.sort-order", "descending"),)}, Filters(), "cannot be set"),
        ({"overrides": (("row-tracking.enabled", "false"),)}, Filters(), "does not use the option row-tracking"),
        ({"overrides": (("snapshot.expire.limit", "1"),)}, Filters(), "has no effect on a compaction"),
        ({"overrides": (("num-levels", "many"),)}, Filters(), "num-levels"),
    ],
)
def test_wrong_calls_are_named(parted, options, filters, word):
    """Bad input is one clear sentence, and nothing is done."""
    names = parted.names()
    with pytest.raises(InvalidInputError, match=word):
        Table(parted.table).compact(PaimonOptions(strategy=PaimonStrategy.FULL, **options), filters=filters)
    assert parted.names() == names


def test_a_budget_of_files_leaves_the_rest_for_the_next_run(parted):
    """What does not fit is named, what fits is committed, and the next run takes the rest."""
    first = Table(parted.table).compact(FULL, budget=Budget(max_files=7))
    assert (first.status, len(labels(first))) == ("committed", 2)
    assert {skip.kind for skip in first.skipped} == {"filtered"}
    second = Table(parted.table).compact(FULL)
    assert len(labels(second)) == 4
    assert parted.problems() == []


def test_groups_are_committed_one_after_the_other(parted):
    """A tiny --commit-every publishes a snapshot for each bucket."""
    before = len(parted.ids())
    options = PaimonOptions(strategy=PaimonStrategy.FULL, commit_every_bytes=1)
    outcome = Table(parted.table).compact(options)
    assert len(outcome.versions) == len(parted.ids()) - before == 6
    assert parted.problems() == []


def test_rows_appended_meanwhile_are_kept(lake):
    """An append between planning and commit is not a conflict, and its rows stay on level 0."""
    engine = Meddling(lambda: lake.append({1: 77, 100: 78}))
    outcome = Table(lake.table, engine=lambda: engine).compact(FULL)
    assert (outcome.status, outcome.versions) == ("committed", (5,))
    assert (lake.rows()[None, 1], lake.rows()[None, 100]) == (77, 78)
    assert lake.problems() == []


def test_a_bucket_that_another_compaction_took_is_planned_again(lake):
    """Inputs that are gone are a conflict of their bucket only: it is read anew; nothing doubles."""
    rows = lake.rows()

    def compact_one():
        options = PaimonOptions(strategy=PaimonStrategy.FULL, buckets=((0, 0),))
        assert Table(lake.table).compact(options).status == "committed"

    engine = Meddling(compact_one)
    outcome = Table(lake.table, engine=lambda: engine).compact(FULL)
    assert outcome.status == "committed"
    assert labels(outcome) == ["bucket-1"]
    assert lake.rows() == rows
    assert lake.problems() == []
    live = {entry.file["_FILE_NAME"] for entry in lake.live()}
    on_disk = {name.rpartition("/")[2] for name in lake.names() if "bucket-" in name}
    assert len(on_disk) == len(live) + 6  # the inputs of three commits stay; the outputs that lost do not


def test_two_runs_at_once_lose_nothing(lake):
    """Two full compactions of everything: one commits, the other finds nothing left to do."""
    rows = lake.rows()
    inner = []
    engine = Meddling(lambda: inner.append(Table(lake.table).compact(FULL)))
    outcome = Table(lake.table, engine=lambda: engine).compact(FULL)
    assert inner[0].status == "committed"
    assert outcome.status == "nothing-to-do"
    assert lake.rows() == rows
    assert lake.problems() == []


def test_refused_tables_are_left_alone(tmp_path):
    """A table of a feature that this version does not know is refused with its reason, for plan and compact alike."""
    lake = PaimonLake(tmp_path / "t").create(**{"row-tracking.enabled": "true"})
    lake.append({1: 1})
    table = Table(lake.table)
    for ask in (table.plan, table.compact):
        with pytest.raises(RefusedError, match="row-tracking"):
            ask()
    assert table.health().hazards[0].name == "not-compacted"


def test_an_empty_table_has_nothing_to_do(tmp_path):
    """No snapshot is not an error."""
    lake = PaimonLake(tmp_path / "t").create()
    assert Table(lake.table).compact(FULL).status == "nothing-to-do"
    assert Table(lake.table).plan().outcome.status == "nothing-to-do"
    assert Table(lake.table).health().files == 0


def test_files_that_do_not_overlap_are_merely_upgraded(tmp_path):
    """Big files whose keys do not meet keep their bytes and get the new level; nothing is rewritten."""
    lake = PaimonLake(tmp_path / "t", buckets=1).create(**{"target-file-size": "1 b"})
    for first in (0, 10, 20):
        lake.append(dict.fromkeys(range(first, first + 5), first))
    rows, names = lake.rows(), {name for name in lake.names() if "bucket" in name}
    outcome = Table(lake.table).compact(FULL)
    assert [unit.how for unit in outcome.units] == ["upgrade"] * 3
    assert (outcome.cost.write_bytes, outcome.verified) == (0, "none")
    assert {name for name in lake.names() if "bucket" in name} == names
    assert {entry.file["_LEVEL"] for entry in lake.live()} == {5}
    assert lake.rows() == rows
    assert lake.problems() == []


def test_deletes_that_a_record_denies_do_not_reach_the_top_level(tmp_path):
    """A file that says it holds no delete marker, and does, is rewritten without it instead of upgraded."""
    lake = PaimonLake(tmp_path / "t", buckets=1).create(**{"target-file-size": "1 b"})
    lake.append(dict.fromkeys(range(5), 1), deleted={3})
    outcome = Table(lake.table).compact(FULL)
    assert [unit.how for unit in outcome.units] == ["rewrite"]
    assert sorted(at for _, at in lake.rows()) == [0, 1, 2, 4]
    assert lake.problems() == []


@pytest.mark.slow
def test_deletes_that_a_record_denies_are_counted_on_the_way_up(tmp_path):
    """Below the top level such a file is upgraded, and its record corrected: it must not be read unmerged."""
    lake = PaimonLake(tmp_path / "t", buckets=1).create(**{"target-file-size": "1 b"})
    lake.append({key: key * 7919 for key in range(5000)})  # too big to be taken along
    assert Table(lake.table).compact(FULL).status == "committed"
    lake.append(dict.fromkeys(range(5), 2), deleted={3})
    outcome = Table(lake.table).compact(PaimonOptions(strategy=PaimonStrategy.FORCE_UP_LEVEL0))
    assert [unit.how for unit in outcome.units] == ["upgrade"]
    assert {entry.file["_LEVEL"]: entry.file["_DELETE_ROW_COUNT"] for entry in lake.live()} == {5: 0, 4: 1}
    assert lake.problems() == []
    assert Table(lake.table).compact(FULL).status == "committed"
    rows = lake.rows()
    assert [at for at in range(5) if (None, at) in rows] == [0, 1, 2, 4]


def test_an_input_that_is_not_what_its_record_says_leaves_its_bucket_alone(lake):
    """A damaged data file is named, its bucket stays as it is, the other bucket is compacted."""
    (broken, *_) = sorted((lake.path / "bucket-0").iterdir())
    content = bytearray(broken.read_bytes())
    content[4:60] = bytes(56)
    broken.write_bytes(content)
    outcome = Table(lake.table).compact(FULL)
    assert (outcome.status, labels(outcome)) == ("partial", ["bucket-1"])
    (skip,) = [skip for skip in outcome.skipped if skip.kind == "unreadable"]
    assert broken.name in skip.why
    assert skip.what == "bucket-0"


def test_keys_that_a_record_denies_leave_the_bucket_alone(tmp_path):
    """A file that holds other keys than its manifest says is not upgraded: its neighbours could overlap it."""
    lake = PaimonLake(tmp_path / "t", buckets=1).create(**{"target-file-size": "1 b"})
    lake.append(dict.fromkeys(range(5), 1))
    (file,) = (lake.path / "bucket-0").iterdir()
    with pq.ParquetFile(file) as parquet:
        table = parquet.read()
    size, moved = file.stat().st_size, pa.array([0, 1, 2, 3, 9], pa.int64())
    pq.write_table(table.set_column(0, "_KEY_id", moved), file)
    assert file.stat().st_size == size  # else the test would show something else
    outcome = Table(lake.table).compact(FULL)
    assert (outcome.status, outcome.units) == ("failed", ())
    assert file.name in outcome.skipped[0].why


def test_a_rescaled_bucket_is_left_alone(lake):
    """Files written for another number of buckets are not merged: their rows may belong elsewhere."""
    schema = json.loads((lake.path / "schema/schema-0").read_text())
    (lake.path / "schema/schema-1").write_text(json.dumps({**schema, "id": 1, "options": {"bucket": "4"}}))
    outcome = Table(lake.table).compact(FULL)
    assert outcome.status == "refused"
    assert {skip.why for skip in outcome.skipped} == {
        "its files were written for 2 buckets, the table has 4; rescale it first"
    }


def test_filters_that_match_nothing_say_so(parted):
    """A slip in a partition's value is not a table that needs nothing."""
    outcome = Table(parted.table).compact(where="p = 9")
    assert (outcome.status, outcome.message) == ("nothing-to-do", "No bucket matches the filters.")


def test_a_strategy_goes_by_its_name(lake):
    """Options and plans take the words of the command line; a wrong one is named."""
    table = Table(lake.table)
    assert PaimonOptions(strategy="full").strategy is PaimonStrategy.FULL
    (bucket, _) = table.plan(strategy="full").outcome.buckets
    assert (bucket.reason, bucket.picked, bucket.output) == ("full", 3, "L5")
    with pytest.raises(InvalidInputError, match="small-files is not a strategy for Paimon"):
        table.plan(strategy="small-files")


def test_old_run_records_are_cleaned(lake):
    """The record of a run that left nothing behind goes after a month; a young one stays."""
    runs = lake.path.parent / ".packstone/t/runs"
    outcome = Table(lake.table).compact(FULL)
    Table(lake.table).clean()
    record = runs / outcome.run / "run.json"
    assert record.exists()
    os.utime(record, (0, 0))
    Table(lake.table).clean()
    assert not record.parent.exists()


def test_a_retract_leaves_key_and_partition_columns(tmp_path):
    """Aggregation: what a delete takes back is the value; the columns of the key, partition among them, stay."""
    options = {"merge-engine": "aggregation", "fields.v.aggregate-function": "sum"}
    lake = PaimonLake(tmp_path / "t", buckets=1, partitioned=True).create(**options)
    lake.append({1: 5, 2: 7}, partition=4)
    lake.append({1: 2}, partition=4, deleted={1})
    assert Table(lake.table).compact(FULL).status == "committed"
    assert lake.rows() == {(4, 1): 3, (4, 2): 7}
    assert lake.problems() == []


REGROUPED = [
    ({"merge-engine": "partial-update", "sequence.field": "v"}, "sequence.field"),
    ({"merge-engine": "partial-update", "partial-update.remove-record-on-delete": "true"}, "remove-record-on-delete"),
    ({"merge-engine": "aggregation", "sequence.field": "v"}, "sequence.field"),
    ({"merge-engine": "aggregation", "aggregation.remove-record-on-delete": "true"}, "remove-record-on-delete"),
]


def grown(tmp_path, **options):
    """A big run on the top level, and small ones that a partial pick merges without it."""
    lake = PaimonLake(tmp_path / "t", buckets=1).create(**options)
    lake.append({key: key * 7919 % 65521 for key in range(5000)})
    assert Table(lake.table).compact(FULL).status == "committed"
    lake.append({1: 100})
    return lake


@pytest.mark.parametrize(("options", "word"), REGROUPED)
def test_a_part_of_the_runs_is_not_merged_where_that_could_change_rows(tmp_path, options, word):
    """Where records cannot be merged in two steps with one result, a partial pick is refused and a full one runs."""
    lake = grown(tmp_path, **options)
    lake.append({1: 50})
    outcome = Table(lake.table).compact(PaimonOptions(strategy=PaimonStrategy.FORCE_UP_LEVEL0))
    assert outcome.status == "refused"
    assert word in outcome.skipped[0].why
    assert Table(lake.table).compact(FULL).status == "committed"


@pytest.mark.parametrize(("function", "status"), [("max", "refused"), ("sum", "committed")])
def test_deletes_in_a_part_of_the_runs_need_a_sum(tmp_path, function, status):
    """What a delete takes back may lie in runs that are not picked; only a sum can be taken back before it is added."""
    lake = grown(tmp_path, **{"merge-engine": "aggregation", "fields.v.aggregate-function": function})
    lake.append({1: 50, 3: 7})
    lake.append({1: 20}, deleted={1} if function == "sum" else ())
    if function == "max":
        lake.append({2: 50}, deleted={2})
    at_once = PaimonLake(tmp_path / "copy", buckets=1)
    shutil.copytree(lake.path, at_once.path)
    outcome = Table(lake.table).compact(PaimonOptions(strategy=PaimonStrategy.FORCE_UP_LEVEL0))
    assert outcome.status == status, outcome
    assert lake.problems() == []
    if function == "sum":  # in two steps the same as in one
        assert Table(at_once.table).compact(FULL).status == "committed"
        assert Table(lake.table).compact(FULL).status == "committed"
        assert lake.rows() == at_once.rows()
        assert lake.rows()[None, 1] == 7919 + 100 + 50 - 20


def test_expired_rows_go_only_when_everything_is_merged(tmp_path):
    """Dropped from a part of the runs, an expired row would uncover an older version of its key."""
    now = int(time.time())
    expiry = {"record-level.expire-time": "1 d", "record-level.time-field": "v"}
    lake = PaimonLake(tmp_path / "t", buckets=1).create(**expiry)
    lake.append(dict.fromkeys(range(5000), now))
    assert Table(lake.table).compact(FULL).status == "committed"
    lake.append({1: 1000, 9000: now})
    lake.append({9001: now})
    rows = lake.rows()
    outcome = Table(lake.table).compact(PaimonOptions(strategy=PaimonStrategy.FORCE_UP_LEVEL0))
    assert outcome.status == "committed"
    assert lake.rows() == rows
    assert rows[None, 1] == 1000


def test_thin_files(lake):
    """Without key columns in the outputs keys are described anyway, and such files are merged again."""
    schema = json.loads((lake.path / "schema/schema-0").read_text())
    schema["options"]["data-file.thin-mode"] = "true"
    (lake.path / "schema/schema-0").write_text(json.dumps(schema))
    rows = lake.rows()
    for value in (7, 8):
        assert Table(lake.table).compact(FULL).status == "committed"
        names = [
            pq.read_schema(lake.path / "bucket-0" / e.file["_FILE_NAME"]).names for e in lake.live() if not e.bucket
        ]
        assert names == [["_SEQUENCE_NUMBER", "_VALUE_KIND", "id", "v"]]
        assert lake.rows() == rows
        lake.append({1: value})
        rows = lake.rows()


def test_a_full_disk_is_not_left_full(lake, monkeypatch):
    """A commit that cannot be written takes its outputs along, and the table is as it was."""
    rows, names = lake.rows(), {name for name in lake.names() if "bucket" in name}
    plain = LocalFileIO.write_new

    def write_new(self, path, data, **options):
        if "/manifest/" in path:
            raise OSError(28, "No space left on device", path)
        plain(self, path, data, **options)

    monkeypatch.setattr(LocalFileIO, "write_new", write_new)
    with pytest.raises(UnavailableError, match="No space left"):
        Table(lake.table).compact(FULL)
    assert {name for name in lake.names() if "bucket" in name} == names
    assert lake.rows() == rows


def test_a_table_without_its_schema_is_not_a_hive_directory(lake):
    """Half a copy of a table must not be merged file by file."""
    for path in (lake.path / "schema").iterdir():
        path.unlink()
    (lake.path / "schema").rmdir()
    with pytest.raises(RefusedError, match="lost its schema folder"):
        packstone.open(lake.table)


def change_schema(path, change):
    """Write the next schema of a table: ``change`` edits the newest one."""
    newest = max(path.glob("schema/schema-*"), key=lambda file: int(file.name.rpartition("-")[2]))
    schema = json.loads(newest.read_text())
    schema["id"] += 1
    change(schema)
    (path / f"schema/schema-{schema['id']}").write_text(json.dumps(schema))


def test_only_the_buckets_of_a_schema_that_cannot_be_carried_over_are_left_alone(lake):
    """A column that became narrower leaves the buckets with old files alone, by name, in plan and in compact."""

    def narrow(schema):
        schema["fields"][1]["type"] = "INT"

    change_schema(lake.path, narrow)
    table = Table(lake.table)
    for outcome in (table.plan(FULL).outcome, table.compact(FULL)):
        assert outcome.status == "refused"
        assert {skip.what for skip in outcome.skipped} == {"bucket-0", "bucket-1"}
        assert all("changed from BIGINT" in skip.why for skip in outcome.skipped)
    assert lake.ids() == [1, 2, 3]


def test_tables_with_iceberg_metadata_are_neither_compacted_nor_cleaned(lake):
    """Iceberg's metadata would name files that an expiry removes; health says it."""
    change_schema(lake.path, lambda schema: schema["options"].update({"metadata.iceberg.storage": "table-location"}))
    table, names = Table(lake.table), lake.names()
    for call in (lambda: table.plan(FULL), lambda: table.compact(FULL), table.clean, lambda: table.clean(dry_run=True)):
        with pytest.raises(RefusedError, match=r"metadata.iceberg.storage"):
            call()
    assert lake.names() == names
    assert "metadata.iceberg.storage" in str(table.health().hazards)


def test_callbacks_that_are_not_called_are_named(lake):
    """The compaction continues; plan, compact and health name what does not run."""
    change_schema(lake.path, lambda schema: schema["options"].update({"commit.callbacks": "com.example.Tell"}))
    table = Table(lake.table)
    outcomes = [table.plan(FULL).outcome, table.compact(FULL)]
    assert outcomes[1].status == "committed"
    assert all("com.example.Tell" in str(outcome.warnings) for outcome in outcomes)
    assert "com.example.Tell" in str(table.health().hazards)


@pytest.mark.parametrize("name", ["append_fixed_bucket", "append_unaware"])
@pytest.mark.parametrize("least", ["2", "3"])
def test_the_plan_of_an_append_table_shows_all_rounds(tmp_path, name, least):
    """It names as many merges, and as many files before and after, as the compaction then does."""
    shutil.copytree(FIXTURES / name / "table", tmp_path / "table")
    table = Table(str(tmp_path / "table"))
    options = PaimonOptions(overrides=(("compaction.min.file-num", least),))
    planned, done = table.plan(options).outcome, table.compact(options)
    assert len(planned.units) == len(done.units) >= 1
    assert (planned.files_before, planned.files_after) == (done.files_before, done.files_after)
    assert table.plan(options).outcome.units == ()


def test_outputs_that_grow_are_explained(lake):
    """Written without compression they are bigger than their inputs: the outcome says by how much, and why."""
    lake.append(dict.fromkeys(range(20_000), 7))
    lake.append(dict.fromkeys(range(10_000, 30_000), 8))
    options = PaimonOptions(strategy=PaimonStrategy.FULL, overrides=(("file.compression", "none"),))
    outcome = Table(lake.table).compact(options)
    assert sum(unit.bytes_after for unit in outcome.units) > sum(unit.bytes_before for unit in outcome.units)
    for unit in outcome.units:
        assert "became one of" in unit.why_bigger
        assert "column" in unit.why_bigger
