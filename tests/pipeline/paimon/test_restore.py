"""Undoing a compaction of a Paimon table: rows and levels as before, newer rows kept, or one sentence why not."""

import contextlib
import json
import os
import shutil
import stat
import time
from dataclasses import replace
from pathlib import Path

import pytest
from paimon_calls import paimon_expire, paimon_leftovers
from paimon_interop.invariants import line_of, live_entries, problems_of
from paimon_interop.table_files import TableFiles
from paimon_lake import PaimonLake, options, tools
from samples import some

from packstone.errors import (
    CommitUnknownError,
    ConflictError,
    InvalidInputError,
    PackstoneError,
    RefusedError,
    UnavailableError,
)
from packstone.model.codec import dump_record
from packstone.pipeline.table import Table
from packstone.runs.folder import Run, RunFolders
from packstone.storage.faulty import Action, Fault, FaultyFileIO, Moment
from packstone.storage.local import LocalFileIO
from packstone.tables.paimon.commit import commit_edits
from packstone.tables.paimon.options import PaimonOptions, PaimonStrategy
from packstone.tables.paimon.restore import copy_data_file
from packstone.tables.paimon.tasks import PAIMON_JOB

FULL = PaimonOptions(strategy=PaimonStrategy.FULL)
FORCED = PaimonOptions(strategy=PaimonStrategy.FORCE_UP_LEVEL0)
FIXTURES = Path(__file__).parents[2] / "testdata" / "paimon"
SETTLED = "java_settled"  # Java compacted it: there is nothing to do, and nothing to undo
CASES = sorted(path.name for path in FIXTURES.iterdir() if (path / "expected.json").exists() and path.name != SETTLED)
IO = LocalFileIO()


@pytest.fixture
def lake(tmp_path):
    """A table of two buckets after three commits that overlap."""
    lake = PaimonLake(tmp_path / "lake/t").create()
    for first in (0, 5, 10):
        lake.append(dict.fromkeys(range(first, first + 10), first))
    return lake


def lines(path):
    """All live files without their names: levels, keys, sequence numbers, statistics, everything."""
    return sorted(line_of(entry) for entry in live_entries(TableFiles(path)))


def scanned(path):
    """All rows by our own scan."""
    return sorted(map(repr, Table(str(path)).scan().to_arrow().to_pylist()))


def folders(lake):
    """The folders of all runs on a table."""
    return RunFolders(io=IO, state=str(lake.path.parent / ".packstone" / lake.path.name))


def change_schema(lake, **changed):
    """Write the next schema of a table, with other options."""
    schema = json.loads((lake.path / "schema/schema-0").read_text())
    schema["options"] |= changed
    (lake.path / "schema/schema-1").write_text(json.dumps({**schema, "id": 1}))


def check_refused(lake, run, match):
    """Refused by one sentence, and not a byte of the table or beside it changed."""
    before = {path: path.read_bytes() for path in lake.path.parent.rglob("*") if path.is_file()}
    with pytest.raises(RefusedError, match=match) as caught:
        Table(lake.table).restore(run)
    assert caught.value.message.count(". ") == 0
    assert {path: path.read_bytes() for path in lake.path.parent.rglob("*") if path.is_file()} == before


# ---- undone ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("strategy", ["full", "force-up-level0"])
@pytest.mark.sample(4)
def test_tables_of_others_are_as_before(tmp_path, name, strategy):
    """Tables that pypaimon and Java made: the same rows, and of every file all that is recorded but its name."""
    path = tmp_path / "table"
    shutil.copytree(FIXTURES / name / "table", path)
    rows, before = scanned(path), lines(path)
    least = (("compaction.min.file-num", "2"), ("num-sorted-run.compaction-trigger", "2"))
    outcome = Table(str(path)).compact(PaimonOptions(strategy=PaimonStrategy(strategy), overrides=least))
    assert outcome.status == "committed", outcome
    report = Table(str(path)).restore(outcome.run)
    assert report.to_json()["status"] == "restored"
    assert (scanned(path), lines(path)) == (rows, before)
    assert problems_of(path) == []
    paimon_expire(IO, str(path))
    assert len(TableFiles(path).snapshots) == 1
    assert (scanned(path), lines(path)) == (rows, before)
    assert problems_of(path) == []


def test_it_is_one_snapshot_and_only_copies_are_new(lake):
    """One COMPACT snapshot more; every older one reads as before; the report counts files and bytes."""
    rows, sizes = lake.rows(), sum(path.stat().st_size for path in lake.path.rglob("data-*"))
    outcome = Table(lake.table).compact(FULL)
    names = lake.names()
    report = Table(lake.table).restore(outcome.run).to_json()
    assert report["parts"] == ["bucket-0", "bucket-1"]
    assert (report["files_restored"], report["files_removed"], report["bytes_restored"]) == (6, 2, sizes)
    assert (lake.ids(), lake.latest()["commitKind"]) == ([1, 2, 3, 4, 5], "COMPACT")
    assert [lake.rows(number) for number in (3, 4, 5)] == [rows] * 3
    copies = {entry.file["_FILE_NAME"] for entry in lake.live()}
    assert not any(Path(name).name in copies for name in names)
    assert lake.latest()["totalRecordCount"] == lake.snapshot(3)["totalRecordCount"]
    own = folders(lake)
    (restore,) = (run for run in own.list_runs() if own.read_info(run).restores == outcome.run)
    left = {path.name for path in Path(own.folder(restore)).iterdir()}
    assert left == {"run.json", "units-0001.json", "ended.json"}


def test_newer_rows_stay(lake):
    """What was appended since is kept, and wins over the rows that come back."""
    outcome = Table(lake.table).compact(FULL)
    lake.append({3: 77, 99: 1})
    rows = lake.rows()
    Table(lake.table).restore(outcome.run)
    assert lake.rows() == rows
    assert (rows[None, 3], rows[None, 99]) == (77, 1)
    assert scanned(lake.path) == sorted(repr({"id": key, "v": value}) for (_, key), value in rows.items())


def test_a_file_that_was_only_moved_goes_back_to_its_level(tmp_path):
    """Under a new name: with its old one on its old level, readers would not see it."""
    lake = PaimonLake(tmp_path / "t", buckets=1).create()
    lake.append({1: 1, 2: 2})
    before = lines(lake.path)
    outcome = Table(lake.table).compact(FULL)
    assert [unit.how for unit in outcome.units] == ["upgrade"]
    (moved,) = lake.live()
    Table(lake.table).restore(outcome.run)
    assert lines(lake.path) == before
    assert lake.live()[0].file["_FILE_NAME"] != moved.file["_FILE_NAME"]
    assert lake.problems() == []
    paimon_expire(IO, lake.table)
    assert lake.rows() == {(None, 1): 1, (None, 2): 2}


def test_rounds_and_waves_are_undone_at_once(tmp_path):
    """A run of several snapshots, whose rounds merge what earlier ones wrote, is undone by one."""
    path = tmp_path / "table"
    shutil.copytree(FIXTURES / "append_unaware/table", path)
    rows, before = scanned(path), lines(path)
    options = PaimonOptions(overrides=(("compaction.min.file-num", "2"), ("target-file-size", "9 kb")))
    outcome = Table(str(path)).compact(replace(options, commit_every_bytes=1))
    assert len(outcome.versions) > 1, outcome
    Table(str(path)).restore(outcome.run)
    assert len(TableFiles(path).snapshots) == outcome.versions[-1] + 1
    assert (scanned(path), lines(path)) == (rows, before)
    assert problems_of(path) == []


def test_waves_of_many_buckets(tmp_path):
    """Each wave is a snapshot of its own; undone are all of them or none."""
    lake = PaimonLake(tmp_path / "t", buckets=3, partitioned=True).create()
    for partition in (1, 2):
        for value in range(3):
            lake.append(dict.fromkeys(range(9), value), partition=partition)
    before, rows = lines(lake.path), lake.rows()
    outcome = Table(lake.table).compact(replace(FULL, commit_every_bytes=1))
    assert len(outcome.versions) == 6
    report = Table(lake.table).restore(outcome.run)
    assert len(report.parts) == 6
    assert (lines(lake.path), lake.rows(), lake.problems()) == (before, rows, [])


def test_a_bucket_without_rows_comes_back(tmp_path):
    """Everything was deleted, so the compaction left no file; its delete markers come back as well."""
    lake = PaimonLake(tmp_path / "t", buckets=1).create()
    lake.append({1: 1, 2: 2})
    lake.append({1: 1, 2: 2}, deleted={1, 2})
    before = lines(lake.path)
    outcome = Table(lake.table).compact(FULL)
    assert lake.live() == []
    assert Table(lake.table).verify(outcome.run).to_json()["status"] == "verified"
    Table(lake.table).restore(outcome.run)
    assert lines(lake.path) == before
    assert Table(lake.table).restore(outcome.run).to_json()["status"] == "nothing-to-do"
    assert lines(lake.path) == before


def test_a_second_time_there_is_nothing_to_do(lake):
    """Also after the table was compacted again, and after snapshots expired."""
    outcome = Table(lake.table).compact(FULL)
    Table(lake.table).restore(outcome.run)
    for prepare in (
        lambda: None,
        lambda: lake.append({1: 5}),
        lambda: paimon_expire(IO, lake.table, keep=2),
        lambda: Table(lake.table).compact(FULL),
    ):
        prepare()
        number = lake.latest()["id"]
        report = Table(lake.table).restore(outcome.run)
        assert (report.parts, report.to_json()["status"]) == ((), "nothing-to-do")
        assert lake.latest()["id"] == number


def test_the_table_goes_on_after_a_restore(lake):
    """Compacted, undone, compacted, undone: the same rows, and each run has its own answers."""
    rows, runs = lake.rows(), []
    for _ in range(3):
        runs.append(Table(lake.table).compact(FULL))
        assert runs[-1].status == "committed"
        assert {entry.file["_LEVEL"] for entry in lake.live()} == {5}
        Table(lake.table).restore(runs[-1].run)
        assert {entry.file["_LEVEL"] for entry in lake.live()} == {0}
        assert (lake.rows(), lake.problems()) == (rows, [])
    last = Table(lake.table).compact(FULL)
    assert [Table(lake.table).restore(one.run).parts for one in runs] == [(), (), ()]
    table = Table(lake.table).open()
    for one in (*runs, last):
        (wave,) = folders(lake).read_waves(one.run, PAIMON_JOB)
        assert table.find_committed(wave) == {"bucket-0", "bucket-1"}
    paimon_expire(IO, lake.table)
    assert (lake.ids(), lake.rows(), lake.problems()) == ([lake.latest()["id"]], rows, [])


@pytest.mark.parametrize("keep", [1, 2, 3])
def test_expiry_after_a_restore_loses_nothing(lake, keep):
    """However few snapshots are kept: originals and outputs go, copies stay."""
    rows = lake.rows()
    outcome = Table(lake.table).compact(FULL)
    Table(lake.table).restore(outcome.run)
    paimon_expire(IO, lake.table, keep=keep)
    assert len(lake.ids()) == keep
    assert (lake.rows(), lake.problems(), scanned(lake.path)) == (rows, [], sorted(rows_text(rows)))
    if keep == 1:
        on_disk = {path.name for path in lake.path.rglob("data-*")}
        assert on_disk == {entry.file["_FILE_NAME"] for entry in lake.live()}


def rows_text(rows):
    """Rows as our scan shows them."""
    return [repr({"id": key, "v": value}) for (_, key), value in rows.items()]


def test_a_tag_keeps_the_inputs(lake):
    """Snapshots before the compaction have expired, but a tag names their files: they can come back."""
    before, rows = lines(lake.path), lake.rows()
    (lake.path / "tag").mkdir()
    shutil.copy(lake.path / "snapshot/snapshot-3", lake.path / "tag/tag-v1")
    outcome = Table(lake.table).compact(FULL)
    paimon_expire(IO, lake.table)
    assert lake.ids() == [4]
    Table(lake.table).restore(outcome.run)
    assert (lines(lake.path), lake.rows(), lake.problems()) == (before, rows, [])


def test_copies_are_as_private_as_the_originals(lake):
    """Nobody may read a copy who may not read the original, whatever its folder allows."""
    secret = sorted(lake.path.rglob("bucket-0/data-*"))
    for path in secret:
        path.chmod(0o600)
    outcome = Table(lake.table).compact(FULL)
    Table(lake.table).restore(outcome.run)
    for entry in lake.live():
        mode = stat.S_IMODE((lake.bucket_folder(entry.bucket) / entry.file["_FILE_NAME"]).stat().st_mode)
        assert mode == (0o600 if entry.bucket == 0 else 0o644)


def test_a_copy_is_proved(tmp_path):
    """A store that changes a byte on the way is found out, and a source of another size is refused."""

    class Flipping(LocalFileIO):
        def open_output(self, path):
            file = super().open_output(path)

            class Writer:
                write = staticmethod(lambda data: file.write(data[:-1] + bytes([data[-1] ^ 1])))
                close = staticmethod(file.close)

            return Writer()

    source, target = tmp_path / "a", tmp_path / "b"
    source.write_bytes(b"rows" * 1000)
    copy_data_file(IO, str(source), str(target), size_bytes=4000)
    assert target.read_bytes() == source.read_bytes()
    with pytest.raises(PackstoneError, match="differs from"):
        copy_data_file(Flipping(), str(source), str(target), size_bytes=4000)
    with pytest.raises(RefusedError, match="no longer has 3 bytes"):
        copy_data_file(IO, str(source), str(target), size_bytes=3)


# ---- refused ---------------------------------------------------------------------------------------------------------


def test_outputs_that_were_merged_again(lake):
    """The run that took them is named; that one can be undone first, and then this one cannot: its files are gone."""
    first = Table(lake.table).compact(FULL)
    lake.append(dict.fromkeys(range(20), 50))
    second = Table(lake.table).compact(FULL)
    check_refused(lake, first.run, rf"bucket-0: its output data-.* snapshot 6 \(run {second.run}\) removed it")
    Table(lake.table).restore(second.run)
    check_refused(lake, first.run, r"is no longer in the table, snapshot 6")


def test_outputs_that_another_program_merged(lake):
    """The user of its commit is named."""
    outcome = Table(lake.table).compact(FULL)
    lake.append({1: 50})
    commit_edits(IO, lake.table, lake.compaction(), options=options(user="flink"), **tools())
    check_refused(lake, outcome.run, r"bucket-1: .* snapshot 6 \(COMPACT of user flink\) removed it")


def test_inputs_that_are_gone(lake):
    """Removed by hand, cut, or expired."""
    victim = min(lake.path.rglob("bucket-1/data-*"))
    outcome = Table(lake.table).compact(FULL)
    content = victim.read_bytes()
    victim.unlink()
    check_refused(lake, outcome.run, f"bucket-1: its input {victim.name} is gone")
    victim.write_bytes(content[:-1])
    check_refused(lake, outcome.run, f"{victim.name} is gone or no longer has {len(content)} bytes")
    victim.write_bytes(content)
    paimon_expire(IO, lake.table)
    check_refused(lake, outcome.run, "bucket-0: its input .* is gone")


def test_inputs_that_nobody_keeps(lake):
    """They are still there, but the snapshots that need them have expired: they may go at any moment."""
    shutil.copytree(lake.path, lake.path.parent / "copy")
    outcome = Table(lake.table).compact(FULL)
    paimon_expire(IO, lake.table)
    for path in (lake.path.parent / "copy").rglob("data-*"):
        shutil.copy(path, lake.path / path.parent.name / path.name)
    shutil.rmtree(lake.path.parent / "copy")
    check_refused(lake, outcome.run, "no snapshot before 4 and no tag keeps its input")


def test_a_run_whose_snapshots_have_expired(lake):
    """Nothing tells any more what it took out; also if only the first of its snapshots has expired."""
    whole = Table(lake.table).compact(FULL)
    lake.append({1: 1})
    paimon_expire(IO, lake.table)
    check_refused(lake, whole.run, "some of its snapshots have expired")
    lake.append({1: 2, 2: 2})
    waves = Table(lake.table).compact(replace(FULL, commit_every_bytes=1))
    assert len(waves.versions) == 2
    paimon_expire(IO, lake.table)
    check_refused(lake, waves.run, "some of its snapshots have expired")


def test_inputs_with_deletion_vectors(lake):
    """The compaction applied and dropped them; without them deleted rows would come back."""
    outcome = Table(lake.table).compact(FULL)
    own = folders(lake)
    (wave,) = own.read_waves(outcome.run, PAIMON_JOB)
    part = wave.parts[1]
    unit = part.units[0]
    ((run, *runs), *sections) = unit.merge.sections
    marked = (((replace(run[0], deleted="x"), *run[1:]), *runs), *sections)
    unit = replace(unit, merge=replace(unit.merge, sections=marked))
    wave = replace(wave, parts=(wave.parts[0], replace(part, units=(unit, *part.units[1:]))))
    Path(own.folder(outcome.run), "units-0001.json").write_bytes(dump_record(wave))
    check_refused(lake, outcome.run, "bucket-1: data-.* had deletion vectors")


def test_inputs_with_further_files(tmp_path):
    """A file index beside a data file is not copied."""

    class Indexed(PaimonLake):
        def _write_file(self, *arguments):
            entry = super()._write_file(*arguments)
            entry["_FILE"]["_EXTRA_FILES"] = [f"{entry['_FILE']['_FILE_NAME']}.index"]
            return entry

    lake = Indexed(tmp_path / "lake/t").create()
    for value in (1, 2):
        lake.append({1: value, 2: value})
    outcome = Table(lake.table).compact(FULL)
    check_refused(lake, outcome.run, r"has extra files \(data-.*index\)")


def test_another_number_of_buckets(lake):
    """The rows would belong into other buckets."""
    outcome = Table(lake.table).compact(FULL)
    change_schema(lake, bucket="4")
    check_refused(lake, outcome.run, "written for 2 buckets, and the table has 4 now")


def test_a_table_that_is_not_compacted(lake):
    """What forbids to compact a table forbids to undo a compaction, too."""
    outcome = Table(lake.table).compact(FULL)
    change_schema(lake, **{"metadata.iceberg.storage": "table-location"})
    check_refused(lake, outcome.run, "metadata.iceberg.storage")


def test_newer_rows_on_a_deeper_level(tmp_path):
    """Somebody compacted what came later: older rows must not come to lie above newer ones."""
    lake = PaimonLake(tmp_path / "lake/t", buckets=1).create()
    for first in (0, 1000):
        lake.append({key: key * 7919 % 65521 for key in range(first, first + 5000)})
    outcome = Table(lake.table).compact(FULL)
    lake.append({1: 1})
    lake.append({2: 2})
    newer = Table(lake.table).compact(FORCED)
    assert sorted(entry.file["_LEVEL"] for entry in lake.live()) == [4, 5]
    check_refused(lake, outcome.run, rf"snapshot 6 \(run {newer.run}\) put newer rows on level 4 since")
    rows = lake.rows()
    Table(lake.table).restore(newer.run)
    Table(lake.table).restore(outcome.run)
    assert (lake.rows(), lake.problems()) == (rows, [])


def test_one_bucket_that_cannot_be_undone_keeps_the_others(lake):
    """All or nothing: the other bucket stays compacted."""
    outcome = Table(lake.table).compact(FULL)
    lake.append({1: 50})
    commit_edits(IO, lake.table, lake.compaction(buckets={1}), options=options(user="flink"), **tools())
    check_refused(lake, outcome.run, "bucket-1: .* user flink")
    assert {entry.file["_LEVEL"] for entry in lake.live()} == {5}


def test_no_room(lake, monkeypatch):
    """Copies need as much space as the originals."""
    outcome = Table(lake.table).compact(FULL)
    monkeypatch.setattr(LocalFileIO, "free_bytes", lambda _self, _path: 1000)
    check_refused(lake, outcome.run, "copies of its inputs need .* are free in")


def test_runs_that_are_not_there(lake):
    """An unknown id, one that is not an id, and the run of another command."""
    outcome = Table(lake.table).compact(FULL)
    Table(lake.table).restore(outcome.run)
    own = folders(lake)
    (restore,) = (run for run in own.list_runs() if own.read_info(run).restores)
    before = lake.names()
    for name in ("20200101T000000-abcdef", "../runs", ""):
        known = r"There is no run .* of .*; `packstone history` lists|is not the id of a run"
        with pytest.raises(InvalidInputError, match=known):
            Table(lake.table).restore(name)
    with pytest.raises(RefusedError, match=f"undid run {outcome.run}; compact .* again instead"):
        Table(lake.table).restore(restore)
    assert lake.names() == before
    assert own.list_runs() == sorted([outcome.run, restore])


# ---- concurrent changes ----


def in_two_steps(lake, run, between):
    """Plan a restore, let somebody else do something, and carry it out."""
    table = Table(lake.table).open()
    with Run(IO, table.root, state=table.state, family="paimon", command="restore", restores=run) as own:
        plan = table.plan_restore(run)
        between()
        return table.restore(plan, own)


def test_an_append_meanwhile_is_kept(lake):
    """The commit is built on it."""
    outcome = Table(lake.table).compact(FULL)
    plan = in_two_steps(lake, outcome.run, lambda: lake.append({1: 70}))
    assert (len(plan.parts), lake.latest()["id"]) == (2, 6)
    assert lake.rows()[None, 1] == 70
    assert lake.problems() == []


@pytest.mark.parametrize("buckets", [{1}, {0, 1}])
def test_a_compaction_meanwhile_is_a_conflict(lake, buckets):
    """Nothing is undone, not even the bucket that still could be, and no copy stays."""
    outcome = Table(lake.table).compact(FULL)
    lake.append({1: 50, 2: 50})

    def meddle():
        commit_edits(IO, lake.table, lake.compaction(buckets=buckets), options=options(user="flink"), **tools())
        meddle.names = set(lake.path.rglob("data-*"))

    rows = lake.rows()
    with pytest.raises(ConflictError, match="Nothing was committed"):
        in_two_steps(lake, outcome.run, meddle)
    assert set(lake.path.rglob("data-*")) == meddle.names
    assert (lake.rows(), lake.latest()["id"], lake.problems()) == (rows, 6, [])
    (only,) = folders(lake).list_runs()
    assert only == outcome.run


def test_two_restores_at_once(lake):
    """The second one sees the first, or what it has published."""
    outcome = Table(lake.table).compact(FULL)
    other = Run(IO, lake.table, state=folders(lake).state, family="paimon", command="restore", restores=outcome.run)
    with other, pytest.raises(ConflictError, match=f"Run {other.id} .* is undoing run {outcome.run} already"):
        Table(lake.table).restore(outcome.run)
    with pytest.raises(ConflictError, match=rf"Run {outcome.run} was undone by run .* in the meantime"):
        in_two_steps(lake, outcome.run, lambda: undo_unseen(lake, outcome.run))
    assert {entry.file["_LEVEL"] for entry in lake.live()} == {0}
    assert lake.problems() == []


def undo_unseen(lake, run):
    """Undo a run while another restore of it has begun and is taken for dead."""
    own = folders(lake)
    (begun,) = (one for one in own.list_runs() if not own.is_ended(one))
    own.end(begun)
    Table(lake.table).restore(run)


@pytest.mark.parametrize("moment", [Moment.BEFORE, Moment.AFTER])
def test_a_store_that_fails_at_every_step(lake, tmp_path, moment):
    """One sentence, or no harm at all; the table is as it was or undone, and the next restore succeeds."""
    outcome = Table(lake.table).compact(FULL)
    rows = lake.rows()
    shutil.copytree(lake.path.parent, tmp_path / "aside")
    io = FaultyFileIO(IO)
    Table(lake.table, io=io).restore(outcome.run)
    for step, name in some(enumerate(io.steps)):
        shutil.rmtree(lake.path.parent)
        shutil.copytree(tmp_path / "aside", lake.path.parent)
        fault = Fault(step=step, action=Action.FAIL, moment=moment)
        with contextlib.suppress(PackstoneError):
            Table(lake.table, io=FaultyFileIO(IO, fault=fault)).restore(outcome.run)
        levels = {entry.file["_LEVEL"] for entry in lake.live()}
        assert levels in ({0}, {5}), (step, name)
        assert (lake.rows(), lake.problems()) == (rows, []), (step, name)
        status = Table(lake.table).restore(outcome.run).to_json()["status"]
        assert status == ("restored" if levels == {5} else "nothing-to-do"), (step, name)
        assert (lake.rows(), lake.problems()) == (rows, []), (step, name)


def test_a_full_disk_is_not_left_full(lake, monkeypatch):
    """Copies that were made go again."""
    outcome = Table(lake.table).compact(FULL)
    names, plain = lake.names(), LocalFileIO.sync_file
    synced = []

    def sync_file(self, path):
        if len(synced) == 3:
            raise OSError(28, "No space left on device", path)
        synced.append(path)
        plain(self, path)

    monkeypatch.setattr(LocalFileIO, "sync_file", sync_file)
    with pytest.raises(UnavailableError, match=r"No space left on device.* Nothing was undone\."):
        Table(lake.table).restore(outcome.run)
    assert lake.names() == names
    assert folders(lake).list_runs() == [outcome.run]


def test_a_store_that_does_not_say_whether_it_published(tmp_path, monkeypatch):
    """The copies stay, because a snapshot may need them; the next restore looks, and `clean` removes what is left."""
    lake = PaimonLake(tmp_path / "lake/t").create(**{"commit.max-retries": "0"})
    for value in (1, 2):
        lake.append({1: value, 2: value})
    outcome = Table(lake.table).compact(FULL)
    rows, plain = lake.rows(), LocalFileIO.write_new

    def write_new(self, path, data, **options):
        if "/snapshot/snapshot-" in path:
            raise OSError(5, "Input/output error", path)
        plain(self, path, data, **options)

    monkeypatch.setattr(LocalFileIO, "write_new", write_new)
    before = set(lake.path.rglob("data-*"))
    with pytest.raises(CommitUnknownError, match="did not say whether snapshot 4 was published"):
        Table(lake.table).restore(outcome.run)
    monkeypatch.undo()
    copies = set(lake.path.rglob("data-*")) - before
    assert len(copies) == 4
    assert Table(lake.table).restore(outcome.run).to_json()["status"] == "restored"
    found = paimon_leftovers(IO, lake.table, now_seconds=time.time() + 2 * 86_400)
    assert copies < set(map(Path, found["paths"]))
    assert (lake.rows(), lake.problems()) == (rows, [])


def test_an_interrupt_after_the_commit_keeps_the_copies(lake, monkeypatch):
    """Ctrl-C comes while the commit runs: it waits, and what is published is not taken back."""
    outcome = Table(lake.table).compact(FULL)
    rows, plain = lake.rows(), LocalFileIO.write_new

    def write_new(self, path, data, **options):
        plain(self, path, data, **options)
        if "/snapshot/snapshot-" in path:
            os.kill(os.getpid(), 2)

    monkeypatch.setattr(LocalFileIO, "write_new", write_new)
    with pytest.raises(KeyboardInterrupt):
        Table(lake.table).restore(outcome.run)
    monkeypatch.undo()
    assert (lake.rows(), lake.problems()) == (rows, [])
    assert Table(lake.table).restore(outcome.run).to_json()["status"] == "nothing-to-do"
