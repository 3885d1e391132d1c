"""Proving a compaction of a Paimon table once more: against its inputs, or by itself when they have expired."""

import shutil
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from paimon_calls import paimon_expire
from paimon_interop.invariants import live_entries
from paimon_interop.table_files import TableFiles
from paimon_lake import PaimonLake

from packstone.errors import InvalidInputError
from packstone.pipeline.table import Table
from packstone.runs.folder import RunFolders
from packstone.storage.local import LocalFileIO
from packstone.tables.paimon.options import PaimonOptions, PaimonStrategy
from packstone.tables.paimon.tasks import PAIMON_JOB

FULL = PaimonOptions(strategy=PaimonStrategy.FULL)
FIXTURES = Path(__file__).parents[2] / "testdata" / "paimon"
SETTLED = "java_settled"  # Java compacted it: there is nothing to do
CASES = sorted(path.name for path in FIXTURES.iterdir() if (path / "expected.json").exists() and path.name != SETTLED)
IO = LocalFileIO()


@pytest.fixture
def lake(tmp_path):
    """A table of two buckets after three commits that overlap."""
    lake = PaimonLake(tmp_path / "lake/t").create()
    for first in (0, 5, 10):
        lake.append(dict.fromkeys(range(first, first + 10), first))
    return lake


def live_paths(lake, bucket=0):
    """The data files of a bucket."""
    return sorted(lake.bucket_folder(bucket) / e.file["_FILE_NAME"] for e in lake.live() if e.bucket == bucket)


def change_row(path):
    """Another value in the first row, as a disk that loses bits or a person with an editor leaves it."""
    with pq.ParquetFile(path) as file:
        table = file.read()
        schema = file.schema_arrow
    values = table["v"].to_pylist()
    values[0] += 1
    pq.write_table(table.set_column(table.schema.get_field_index("v"), schema.field("v"), pa.array(values)), path)


def compact(path, **more):
    """A full compaction of whatever is at the path."""
    least = (("compaction.min.file-num", "2"),)
    outcome = Table(str(path)).compact(replace(FULL, overrides=least, **more))
    assert outcome.status == "committed", outcome
    return outcome


@pytest.mark.parametrize("verify", ["content", "count"])
@pytest.mark.parametrize("name", CASES)
@pytest.mark.sample(4)
def test_tables_of_others(tmp_path, name, verify):
    """Every format, engine and schema: proved against the inputs, and again when only the outputs are left."""
    path = tmp_path / "table"
    shutil.copytree(FIXTURES / name / "table", path)
    before = set(path.rglob("bucket-*/*"))
    outcome = compact(path, verify=verify)
    rewritten = [unit for unit in outcome.units if unit.how != "upgrade"]
    outputs = sum(len(unit.outputs) for unit in rewritten)
    report = Table(str(path)).verify(outcome.run)
    assert (report.problems, report.proved, report.with_inputs) == ((), outputs, outputs)
    assert report.rows == sum(unit.rows for unit in rewritten)
    for file in before:
        file.unlink()
    report = Table(str(path)).verify(outcome.run)
    assert (report.problems, report.proved, report.with_inputs) == ((), outputs, 0)


def test_rounds_are_proved_one_by_one(tmp_path):
    """What a later round merged again is proved while its file is there, and is not a problem when it is not."""
    path = tmp_path / "table"
    shutil.copytree(FIXTURES / "append_unaware/table", path)
    overrides = (("compaction.min.file-num", "2"), ("target-file-size", "9 kb"))
    options = PaimonOptions(overrides=overrides, commit_every_bytes=1)
    outcome = Table(str(path)).compact(options)
    assert len(outcome.versions) > 1
    every = sum(len(unit.outputs) for unit in outcome.units)
    report = Table(str(path)).verify(outcome.run)
    assert (report.problems, report.proved, report.with_inputs) == ((), every, every)
    paimon_expire(IO, str(path))
    live = {entry.file["_FILE_NAME"] for entry in live_entries(TableFiles(path))}
    report = Table(str(path)).verify(outcome.run)
    assert (report.problems, report.with_inputs) == ((), 0)
    assert report.proved == len(live & {name for unit in outcome.units for name in unit.outputs})


@pytest.mark.parametrize("has_inputs", [True, False])
def test_a_changed_output_is_found(lake, has_inputs):
    """By its bytes, its rows and its fingerprint, whether its inputs are there or not."""
    outcome = compact(lake.path)
    (output,) = live_paths(lake)
    if not has_inputs:
        paimon_expire(IO, lake.table)
    change_row(output)
    report = Table(lake.table).verify(outcome.run)
    (problem,) = report.problems
    assert problem.startswith(f"bucket-0/{output.name}: ")
    assert report.to_json()["status"] == "failed"
    assert report.with_inputs == (2 if has_inputs else 0)


def test_an_output_of_the_same_size_is_found_by_its_fingerprint(lake, monkeypatch):
    """Without inputs the record is all there is to compare with."""
    outcome = compact(lake.path)
    (output,) = live_paths(lake)
    size = output.stat().st_size
    paimon_expire(IO, lake.table)
    change_row(output)
    plain = LocalFileIO.stat

    def stat(self, path):
        found = plain(self, path)
        return replace(found, size_bytes=size) if path == str(output) else found

    monkeypatch.setattr(LocalFileIO, "stat", stat)
    (problem,) = Table(lake.table).verify(outcome.run).problems
    assert "the merged files have the fingerprint" in problem
    assert ", not " in problem


def test_a_changed_input_is_found(lake):
    """The merge of what is there now is not what was written."""
    paths = live_paths(lake)
    outcome = compact(lake.path)
    change_row(paths[-1])
    for path in paths[:-1]:
        change_row(path)
    (problem,) = Table(lake.table).verify(outcome.run).problems
    assert "bucket-0/" in problem
    assert "is not what was written" in problem


def test_a_damaged_file_is_found(lake):
    """Cut in the middle, it is named; the other bucket is proved nevertheless."""
    outcome = compact(lake.path)
    (output,) = live_paths(lake)
    output.write_bytes(output.read_bytes()[:100])
    report = Table(lake.table).verify(outcome.run)
    (problem,) = report.problems
    assert output.name in problem
    assert report.proved == 2


def test_an_output_that_is_gone_is_a_problem(lake):
    """No snapshot removed it, so somebody removed it."""
    outcome = compact(lake.path)
    (output,) = live_paths(lake)
    output.unlink()
    report = Table(lake.table).verify(outcome.run)
    why = f"bucket-0/{output.name}: the file is gone, and no snapshot removed it from the table"
    assert (report.problems, report.proved) == ((why,), 1)


def test_outputs_that_were_merged_again(lake):
    """They are proved while their files are there; when these have expired, nothing is left to prove."""
    first = compact(lake.path)
    lake.append(dict.fromkeys(range(20), 50))
    second = compact(lake.path)
    assert Table(lake.table).verify(first.run).to_json()["status"] == "verified"
    paimon_expire(IO, lake.table)
    with pytest.raises(InvalidInputError, match=f"Run {first.run} has no merged files left to prove"):
        Table(lake.table).verify(first.run)
    report = Table(lake.table).verify(second.run)
    assert (report.problems, report.proved, report.with_inputs) == ((), 2, 0)


def test_a_run_whose_snapshot_has_expired(lake):
    """Its outputs are live, so they are proved by what was recorded of them."""
    outcome = compact(lake.path)
    lake.append({1: 1})
    paimon_expire(IO, lake.table)
    assert lake.ids() == [5]
    report = Table(lake.table).verify(outcome.run)
    assert (report.problems, report.proved, report.with_inputs) == ((), 2, 0)
    table = Table(lake.table).open()
    (wave,) = RunFolders(io=IO, state=table.state).read_waves(outcome.run, PAIMON_JOB)
    assert table.find_committed(wave) == {"bucket-0", "bucket-1"}


def test_after_a_restore(lake):
    """Proved while the files are there; the files of a run that was undone are no problem when they are gone."""
    outcome = compact(lake.path)
    Table(lake.table).restore(outcome.run)
    assert Table(lake.table).verify(outcome.run).to_json()["status"] == "verified"
    own = RunFolders(io=IO, state=str(lake.path.parent / ".packstone/t"))
    (restore,) = (run for run in own.list_runs() if own.read_info(run).restores)
    with pytest.raises(InvalidInputError, match=f"undid run {outcome.run}; it merged nothing that could be proved"):
        Table(lake.table).verify(restore)
    paimon_expire(IO, lake.table)
    with pytest.raises(InvalidInputError, match="no merged files left to prove: it was undone, or merged again"):
        Table(lake.table).verify(outcome.run)


def test_upgrades_have_nothing_to_prove(tmp_path):
    """A file that was moved to another level is the same file."""
    lake = PaimonLake(tmp_path / "t").create()
    lake.append({1: 1, 2: 2})
    outcome = compact(lake.path)
    assert {unit.how for unit in outcome.units} == {"upgrade"}
    with pytest.raises(InvalidInputError, match="only moved files to other levels; it merged nothing"):
        Table(lake.table).verify(outcome.run)


def test_runs_that_are_not_there(lake):
    """One sentence, and nothing is left of the attempt."""
    compact(lake.path)
    before = sorted(lake.path.parent.rglob("*"))
    for name in ("20200101T000000-abcdef", "../runs", "a/b"):
        known = r"There is no run .* of .*; `packstone history` lists|is not the id of a run"
        with pytest.raises(InvalidInputError, match=known):
            Table(lake.table).verify(name)
    assert sorted(lake.path.parent.rglob("*")) == before


def test_a_wave_that_was_never_published_is_not_proved(lake, children):
    """Killed between its record and its snapshot: recover ends it, and there is nothing to prove or to undo."""
    done = children.run("paimon_compact", path=lake.table)
    (record,) = (at for at, step in enumerate(done["steps"]) if "/units-0001.json" in step)
    lake.append({1: 70})
    rows, latest = lake.rows(), lake.latest()["id"]
    own = RunFolders(io=IO, state=str(lake.path.parent / ".packstone/t"))
    (first,) = own.list_runs()
    fault = {"step": record, "action": "kill", "moment": "after"}
    assert children.run("paimon_compact", path=lake.table, fault=fault)["status"] == -9
    (killed,) = (run for run in own.list_runs() if run != first)
    report = Table(lake.table).recover()
    assert (report.left, [one.run for one in report.found]) == ((), [killed])
    assert own.is_ended(killed)
    (wave,) = own.read_waves(killed, PAIMON_JOB)
    assert Table(lake.table).open().find_committed(wave) == set()
    with pytest.raises(InvalidInputError, match="no merged files left to prove"):
        Table(lake.table).verify(killed)
    assert Table(lake.table).restore(killed).to_json()["status"] == "nothing-to-do"
    assert (lake.rows(), lake.latest()["id"]) == (rows, latest)
