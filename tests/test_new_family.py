"""A new family is one folder and one row: JSON-lines tables (tests/jsonl_family) through every verb, and every kill.

The row is added to ``FAMILIES`` as the source would have it, and nothing else is changed.
"""

import json
import logging
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import Done
from jsonl_family import tasks
from jsonl_family.options import JsonlOptions
from jsonl_lake import JsonlLake, with_row
from paimon_lake import PaimonLake
from patience import patient
from samples import some

from packstone.errors import CommitUnknownError, InvalidInputError, PackstoneError, VerificationError
from packstone.model.limits import Budget
from packstone.pipeline.plan import Plan
from packstone.pipeline.table import Table
from packstone.runs.engine import InlineEngine
from packstone.runs.folder import record_created
from packstone.runs.interrupts import interruptible
from packstone.storage.faulty import Action, Fault, FaultyFileIO, Moment
from packstone.storage.local import LocalFileIO
from packstone.tables import families

HERE = Path(__file__).parent
KILLED = -signal.SIGKILL


@pytest.fixture(autouse=True)
def _row(monkeypatch):
    """One row more."""
    monkeypatch.setattr(families, "FAMILIES", with_row())


@pytest.fixture
def lake(tmp_path) -> JsonlLake:
    """Two partitions of small files."""
    return JsonlLake(tmp_path / "lake").append("dt=1", files=3).append("dt=2", files=2)


@pytest.fixture
def process(quiet_env):
    """Run the command line in a process of its own, whose FAMILIES have the row."""

    def call(*arguments) -> Done:
        command = [sys.executable, str(HERE / "with_jsonl.py"), *map(str, arguments)]
        done = subprocess.run(command, env=quiet_env, capture_output=True, text=True, check=False, timeout=patient(120))
        return Done(done.returncode, done.stdout, done.stderr)

    return call


# ---- the command line ----


class TestCommandLine:
    """Every verb, in this process."""

    def test_health(self, lake, packstone):
        """Health draws the family's report, and prints its JSON."""
        assert packstone("health", lake.table, "--format", "json").json["small_files"] == 5
        done = packstone("health", lake.table)
        assert (done.code, "5 files, 5 of them small" in done.out) == (0, True)

    def test_plan_writes_nothing(self, lake, packstone, tree):
        """A plan names the merges and changes no file of the table."""
        before = tree(lake.root)
        done = packstone("plan", lake.table, "--format", "json")
        assert (done.code, done.json["status"], done.json["family"]) == (0, "planned", "jsonl")
        assert [len(unit["inputs"]) for unit in done.json["units"]] == [3, 2]
        assert tree(lake.root) == before

    def test_compact_and_again(self, lake, packstone):
        """A compaction publishes one version with all rows; a second one has nothing to do and publishes nothing."""
        ids, version = lake.ids(), lake.versions()
        done = packstone("compact", lake.table, "--format", "json")
        assert (done.code, done.json["status"], done.json["rows"]) == (0, "committed", 25)
        assert (done.json["files_before"], done.json["files_after"]) == (5, 2)
        assert (done.json["versions"], lake.versions()) == ([version + 1], version + 1)
        assert (lake.ids(), len(lake.live())) == (ids, 2)
        again = packstone("compact", lake.table, "--format", "json")
        assert (again.code, again.json["status"], lake.versions()) == (0, "nothing-to-do", version + 1)

    def test_the_drawing_uses_the_words_of_the_row(self, lake, packstone):
        """The table of merges is headed by what the row calls a part, the commit by what it calls a version."""
        done = packstone("compact", lake.table)
        assert "partition" in done.out
        assert "version 3" in done.out

    def test_saved_plan(self, lake, packstone, tmp_path):
        """A saved plan is carried out exactly: what arrived later stays; planning options beside it are refused."""
        out = tmp_path / "plan.json"
        assert packstone("plan", lake.table, "--where", "dt = '1'", "--out", out).code == 0
        lake.append("dt=1")
        refused = packstone("compact", lake.table, "--plan", out, "--where", "dt = '2'")
        assert (refused.code, "--where is part of the plan" in refused.sentence) == (2, True)
        done = packstone("compact", lake.table, "--plan", out, "--format", "json")
        assert (done.code, done.json["status"], done.json["rows"]) == (0, "committed", 15)
        assert [name.split("/")[0] for name in lake.live()] == ["dt=1", "dt=1", "dt=2", "dt=2"]

    def test_a_saved_plan_that_is_out_of_date(self, lake, packstone, tmp_path):
        """A part whose inputs are gone is skipped with the reason, and the exit code says so."""
        out = tmp_path / "plan.json"
        packstone("plan", lake.table, "--out", out)
        packstone("compact", lake.table, "--where", "dt = '1'")
        done = packstone("compact", lake.table, "--plan", out, "--format", "json")
        assert (done.code, done.json["status"]) == (1, "partial")
        assert "plan again" in done.skipped("dt=1")

    def test_where(self, lake, packstone):
        """Only selected partitions are merged; a column that is none is a wrong call."""
        done = packstone("compact", lake.table, "--where", "dt = '2'", "--format", "json")
        assert [unit["part"] for unit in done.json["units"]] == ["dt=2"]
        assert done.skipped("dt=1") == "does not match --where"
        assert packstone("plan", lake.table, "--where", "region = 'eu'").code == 2

    @pytest.mark.parametrize(
        ("arguments", "sentence"),
        [
            (("compact", "--codec", "zstd"), "--codec is for Hive directories"),
            (("compact", "--set", "rules=2.1"), "rules is for Paimon tables, and"),
            (("compact", "--min-age", "1d"), "--min-age is for Hive directories and Paimon tables and segment tables"),
            (("compact", "--take-over"), "--take-over is for Hive directories"),
            (("compact", "--set", "fan-inn=3"), "fan-inn is not an option of this table; did you mean fan-in?"),
            (("compact", "--set", "fan-in=few"), "fan-in: 'few' is not a whole number"),
            (("compact", "--set", "fan-in=1"), "fan-in is 1; it must be at least 2."),
            (("restore", "20200101T000000-abcdef", "--set", "fan-in=3", "--yes"), "fan-in has no effect on"),
            (("compact", "--ids", "1"), "--ids is for Segment tables"),
            (("clean", "--expire-snapshots"), "--expire-snapshots is for Paimon tables"),
            (("compact", "--strategy", "major"), "major is not a strategy for JSON-lines tables; use small-files."),
            (("compact", "--keep-days", "-1"), "keep-days is -1; it must not be negative."),
        ],
    )
    def test_options_of_others_are_refused(self, lake, packstone, tree, arguments, sentence):
        """An option that this family does not know is one sentence and exit code 2, and nothing is changed."""
        before = tree(lake.root)
        at = 2 if arguments[0] == "restore" else 1
        done = packstone(*arguments[:at], lake.table, *arguments[at:])
        assert done.code == 2
        assert sentence.lower() in done.sentence.lower()
        assert tree(lake.root) == before

    def test_its_options_are_refused_elsewhere(self, tmp_path, packstone):
        """An option that several families share names all of them when it is refused."""
        paimon = PaimonLake(tmp_path / "paimon").create()
        done = packstone("compact", paimon.path, "--keep-days", "1")
        assert done.code == 2
        assert "--keep-days is for Hive directories and JSON-lines tables" in done.sentence

    def test_its_own_option(self, lake, packstone):
        """An option of the family needs its field and nothing else: --set, a saved plan, and the list know it."""
        done = packstone("plan", lake.table, "--set", "fan-in=3", "--format", "json")
        assert [unit["part"] for unit in done.json["units"]] == ["dt=1"]
        assert done.skipped("dt=2") == "2 small files, fewer than 3"
        listed = packstone("options", lake.table, "--format", "json").json
        assert (listed["family"], [one["key"] for one in listed["options"]]) == (
            "jsonl",
            ["target-size", "keep-days", "fan-in"],
        )
        assert listed["options"][2] == {
            "key": "fan-in",
            "option": "--set",
            "default": "2",
            "value": "2",
            "help": "Leave a partition alone that has fewer small files.",
        }
        assert listed["options"][0]["option"] == "--target-size"
        assert "--set fan-in" in packstone("options", lake.table).out

    def test_its_option_is_refused_elsewhere(self, tmp_path, packstone):
        """A key of this family alone names it where it is refused."""
        paimon = PaimonLake(tmp_path / "paimon").create()
        done = packstone("compact", paimon.path, "--set", "fan-in=3")
        assert (done.code, "fan-in is for JSON-lines tables, and" in done.sentence) == (2, True)

    def test_inside_the_table(self, lake, packstone):
        """A partition is not a target; the sentence says what is."""
        done = packstone("plan", lake.table / "dt=1")
        assert done.code == 2
        assert f"lies inside the JSON-lines table {lake.table}" in done.sentence

    def test_the_classic_command_refuses_it(self, lake, packstone):
        """``merge`` is for plain folders."""
        done = packstone("merge", lake.root, "events", "120M")
        assert (done.code, "is a JSON-lines table" in done.sentence) == (2, True)

    def test_a_folder_above_it_is_not_merged_raw(self, lake, packstone, tree):
        """A plain folder that holds such a table is not compacted; the table in it is named."""
        before = tree(lake.table)
        done = packstone("compact", lake.root, "--set", "min-files=2", "--format", "json")
        assert (done.code, done.json["status"], done.json["tables"]) == (2, "failed", [str(lake.table)])
        assert tree(lake.table) == before

    def test_query(self, lake, packstone):
        """A family without a source of scans cannot be queried: one sentence says so, and no other family reads it."""
        done = packstone("query", lake.table, "SELECT count(*) FROM t")
        assert done.code == 2
        assert done.sentence.endswith(f"{lake.table} is a JSON-lines table, which cannot be queried.")

    def test_history(self, lake, packstone):
        """The history has the run with its family, lists by family, and refuses a family that there is not."""
        run = packstone("compact", lake.table, "--format", "json").json["run"]
        (row,) = packstone("history", "--family", "jsonl", "--format", "json").json["runs"]
        assert (row["run"], row["family"], row["status"], row["rows"]) == (run, "jsonl", "committed", 25)
        assert packstone("history", "--family", "paimon", "--format", "json").json["runs"] == []
        assert "jsonl" in packstone("history", "--family", "delta").sentence

    def test_verify(self, lake, packstone):
        """A run is proved again with its inputs; a changed output is a mismatch with exit code 1."""
        run = packstone("compact", lake.table, "--format", "json").json["run"]
        done = packstone("verify", run, "--format", "json")
        assert (done.code, done.json["status"]) == (0, "verified")
        assert (done.json["files"], done.json["files_with_originals"], done.json["rows"]) == (2, 2, 25)
        merged = lake.table / lake.live()[0]
        merged.write_text(merged.read_text().replace("1000", "1009"))
        bad = packstone("verify", run, lake.table, "--format", "json")
        assert (bad.code, bad.json["status"]) == (1, "failed")
        assert "dt=1/merged" in bad.json["problems"][0]

    def test_verify_without_inputs(self, lake, packstone):
        """When the inputs are cleaned away, the outputs are proved against the record."""
        run = packstone("compact", lake.table, "--keep-days", "0", "--format", "json").json["run"]
        packstone("clean", lake.table, "--yes")
        done = packstone("verify", run, "--format", "json")
        assert (done.code, done.json["files"], done.json["files_with_originals"]) == (0, 2, 0)
        assert packstone("verify", "20200101T000000-abcdef", lake.table).code == 2

    def test_restore(self, lake, packstone):
        """A restore brings the inputs back and nothing else; the history learns it; a second one does nothing."""
        files, ids = lake.live(), lake.ids()
        run = packstone("compact", lake.table, "--format", "json").json["run"]
        lake.append("dt=3")
        done = packstone("restore", run, "--yes", "--format", "json")
        assert (done.code, done.json["status"], done.json["files_restored"]) == (0, "restored", 5)
        assert [name for name in lake.live() if not name.startswith("dt=3")] == files
        assert lake.ids("dt=1") + lake.ids("dt=2") == ids
        assert packstone("history", "show", run, "--format", "json").json["status"] == "restored"
        assert packstone("restore", run, lake.table, "--yes", "--format", "json").json["status"] == "nothing-to-do"
        assert packstone("verify", run, lake.table).code == 2
        assert packstone("compact", lake.table, "--format", "json").json["status"] == "committed"

    def test_restore_that_cannot_be(self, lake, packstone):
        """Merged again, or without its inputs, a run cannot be undone: one sentence, exit code 3."""
        first = packstone("compact", lake.table, "--keep-days", "0", "--format", "json").json["run"]
        lake.append("dt=1")
        second = packstone("compact", lake.table, "--keep-days", "0", "--format", "json").json["run"]
        done = packstone("restore", first, lake.table, "--yes")
        assert (done.code, "was merged again" in done.sentence) == (3, True)
        packstone("clean", lake.table, "--yes")
        done = packstone("restore", second, lake.table, "--yes")
        assert (done.code, "is not kept any more" in done.sentence) == (3, True)

    def test_clean(self, lake, packstone):
        """Replaced files stay for --keep-days; then a dry run names them, and a real one removes exactly those."""
        packstone("compact", lake.table, "--where", "dt = '1'")
        assert packstone("clean", lake.table, "--format", "json").json["status"] == "nothing-to-do"
        packstone("compact", lake.table, "--keep-days", "0")
        ids, files = lake.ids(), lake.on_disk()
        dry = packstone("clean", lake.table, "--dry-run", "--format", "json")
        assert (dry.code, dry.json["status"], dry.json["files"]) == (0, "planned", 2)
        assert lake.on_disk() == files
        assert packstone("clean", lake.table).code == 2  # nobody can be asked
        done = packstone("clean", lake.table, "--yes", "--format", "json")
        assert (done.code, done.json["status"], done.json["files"]) == (0, "cleaned", 2)
        assert (len(files) - len(lake.on_disk()), lake.ids()) == (2, ids)
        assert packstone("clean", lake.table, "--yes", "--format", "json").json["status"] == "nothing-to-do"

    def test_clean_all(self, lake, packstone):
        """``clean --all`` finds the table through the history."""
        packstone("compact", lake.table, "--keep-days", "0")
        dry = packstone("clean", "--all", "--dry-run", "--format", "json")
        assert (dry.code, dry.json["files"], len(lake.on_disk())) == (0, 5, 7)
        done = packstone("clean", "--all", "--yes", "--format", "json")
        assert (done.code, done.json["tables"][0]["family"], lake.on_disk()) == (0, "jsonl", lake.live())

    def test_check(self, lake, packstone):
        """A sound table is sound, and a file that is gone is named."""
        assert packstone("check", lake.table, "--format", "json").json["status"] == "sound"
        lost = next(iter(sorted(lake.live())))
        Path(lake.table, lost).unlink()
        done = packstone("check", lake.table, "--deep")
        assert (done.code, lost in done.out) == (1, True), done

    def test_recover(self, lake, packstone):
        """A table that no run has touched needs no recovery."""
        done = packstone("recover", lake.table, "--format", "json")
        assert (done.code, done.json["status"]) == (0, "nothing-to-do")


def test_a_process_of_its_own(lake, process):
    """With the row in the source, the installed program knows the family: help, options, verbs, exit codes."""
    ids = lake.ids()
    assert "JSON-lines tables: small-files" in " ".join(process("compact", "--help").out.split()).replace("- ", "-")
    done = process("compact", lake.table, "--format", "json")
    assert (done.code, done.json["status"], done.err) == (0, "committed", "")
    assert process("verify", done.json["run"]).code == 0
    assert process("restore", done.json["run"], "--yes").code == 0
    assert process("compact", lake.table, "--header", "1").code == 2
    assert lake.ids() == ids


# ---- Python ----


def table(lake, io=None, **facts) -> Table:
    """The table, with nobody's history."""
    return Table(str(lake.table), io=io, **facts)


class Between(InlineEngine):
    """Does something when all tasks are done and nothing is committed yet."""

    def __init__(self, act):
        super().__init__()
        self._act = act

    def run(self, *arguments, **facts):
        """Run the tasks, then act, once."""
        results = list(super().run(*arguments, **facts))
        act, self._act = self._act, lambda: None
        act()
        return iter(results)


class Straggling(InlineEngine):
    """As Spark may: a second copy of a task has said what it will write, and writes it when the run has ended."""

    tasks_may_outlive_job = True

    def run(self, job, units, **facts):
        """Run the tasks; the copy has only got as far as its record."""
        yield from super().run(job, units, **facts)
        context = units[0].context
        self.late = Path(context.root) / "dt=1" / "merged-late.jsonl"
        record_created(LocalFileIO(), context.run_folder, (str(self.late),), label="late")


class NoRoom(LocalFileIO):
    """A store that is nearly full."""

    def free_bytes(self, path):
        """Enough for the smaller partition only."""
        return 150


def test_a_plan_is_kept_and_carried_out(lake, tmp_path):
    """``plan``, ``save``, ``load`` and ``compact(plan)`` keep the family's own options and parts."""
    path, ids = str(tmp_path / "plan.json"), lake.ids()
    plan = table(lake).plan(JsonlOptions(target_bytes=1 << 20), where="dt = '1'")
    plan.save(path)
    loaded = Plan.load(path)
    assert (loaded.options, [part.part for part in loaded.parts]) == (JsonlOptions(target_bytes=1 << 20), ["dt=1"])
    outcome = table(lake).compact(loaded)
    assert (outcome.status, outcome.cost.files_in, lake.ids()) == ("committed", 3, ids)
    with pytest.raises(InvalidInputError, match="takes JsonlOptions, not int"):
        table(lake).plan(7)


@pytest.mark.parametrize(("budget", "merged"), [(Budget(max_files=2), "dt=2"), (Budget(max_bytes=130), "dt=2")])
def test_budget(lake, budget, merged):
    """A partition that does not fit into the budget is left out as a whole, said once; a smaller one still fits."""
    outcome = table(lake).compact(budget=budget)
    assert [unit.partition for unit in outcome.units] == [merged]
    assert [(skip.what, skip.kind) for skip in outcome.skipped] == [("dt=1", "filtered")]
    assert (outcome.status, outcome.skipped[0].why.startswith("over the budget")) == ("committed", True)


def test_another_writer_appends_meanwhile(lake):
    """A version that somebody published between the run and its commit stays: the commit is made on top of it."""
    engine = Between(lambda: lake.append("dt=1"))
    outcome = table(lake, engine=lambda: engine).compact()
    assert (outcome.status, len(outcome.units), outcome.skipped) == ("committed", 2, ())
    assert (len(lake.ids()), len(lake.live())) == (30, 3)


def test_another_run_merges_meanwhile(lake):
    """Of two runs on one partition the second loses it, removes its output, plans again and finds nothing to do."""
    engine = Between(lambda: table(lake).compact(where="dt = '1'"))
    ids = lake.ids()
    outcome = table(lake, engine=lambda: engine).compact()
    assert [unit.partition for unit in outcome.units] == ["dt=2"]
    assert [(skip.what, skip.kind) for skip in outcome.skipped] == [("dt=1", "not-needed")]
    assert (lake.ids(), len(lake.on_disk())) == (ids, 7)  # five inputs, two outputs


def test_a_lost_part_of_a_saved_plan_is_a_conflict(lake):
    """A saved plan is not planned again: what another run took is a conflict, the rest is committed."""
    plan, engine = table(lake).plan(), Between(lambda: table(lake).compact(where="dt = '1'"))
    outcome = table(lake, engine=lambda: engine).compact(plan)
    assert (outcome.status, [skip.kind for skip in outcome.skipped]) == ("partial", ["conflict"])
    assert len(lake.ids()) == 25


def test_everything_lost(lake):
    """If nothing of a wave is left to commit, nothing is published and nothing recorded as published."""
    plan, engine = table(lake).plan(), Between(lambda: table(lake).compact())
    outcome = table(lake, engine=lambda: engine).compact(plan)
    assert (outcome.status, outcome.run, outcome.versions) == ("conflict", None, ())
    assert lake.versions() == 3
    assert len(list((lake.state / "runs").iterdir())) == 1  # that of the other run


def test_a_failed_unit_costs_its_part(lake):
    """A line that is not JSON leaves its partition alone, with the file's name; the others are merged."""
    broken = sorted((lake.table / "dt=1").iterdir())[1]
    broken.write_text("{")
    outcome = table(lake).compact()
    assert (outcome.status, [unit.partition for unit in outcome.units]) == ("partial", ["dt=2"])
    assert [(skip.what, skip.kind) for skip in outcome.skipped] == [("dt=1", "unreadable")]
    assert str(broken) in outcome.skipped[0].why
    assert len(lake.on_disk()) == 6


def test_a_mismatch_stops_with_evidence(lake, monkeypatch):
    """If the merged lines are not those of the inputs, nothing is published, and the evidence stays until `clean`."""
    before = lake.live()
    with monkeypatch.context() as patch:
        patch.setattr(tasks, "fingerprint", _dropping(tasks.fingerprint))
        with pytest.raises(VerificationError, match="The evidence is kept in") as caught:
            table(lake).compact()
    assert (lake.live(), lake.versions()) == (before, 2)
    assert Path(caught.value.facts["staging"]).is_dir()
    assert len(lake.on_disk()) > 5
    assert table(lake).clean().files > 0
    assert (lake.on_disk(), lake.live()) == (before, before)


def _dropping(fingerprint):
    """A proof that sees one line less in outputs, as if the merge had lost it."""

    def wrong(io, paths):
        rows, text = fingerprint(io, paths)
        return (rows - 1, f"lost {text}") if "/merged-" in next(iter(paths)) else (rows, text)

    return wrong


def test_too_little_space_skips_the_part(lake):
    """A partition without room for its output is refused by name, before anything of it is written."""
    outcome = table(lake, io=NoRoom()).compact()
    assert [unit.partition for unit in outcome.units] == ["dt=2"]
    assert [(skip.what, skip.kind) for skip in outcome.skipped] == [("dt=1", "refused")]
    assert "are free" in outcome.skipped[0].why


def test_what_a_straggler_writes_is_known_by_name(lake):
    """A task that writes after its run has ended leaves a file that `clean` knows, because the record of it stays."""
    engine, ids = Straggling(), lake.ids()
    assert table(lake, engine=lambda: engine).compact().status == "committed"
    engine.late.write_text("late\n")
    assert [path for path, _ in table(lake).clean().sizes] == [str(engine.late)]
    assert (engine.late.exists(), lake.ids()) == (False, ids)


def test_interrupted_when_all_is_written(lake):
    """A signal between the last unit and the commit: what is written and proved is published, then the run ends."""
    engine, ids = Between(lambda: os.kill(os.getpid(), signal.SIGTERM)), lake.ids()
    with interruptible():
        outcome = table(lake, engine=lambda: engine).compact()
    assert (outcome.interrupted, outcome.exit_code, len(outcome.units)) == ("SIGTERM", 143, 2)
    assert outcome.message.startswith("Interrupted: all 2 partitions are published; run")
    assert (lake.ids(), lake.versions(), list((lake.state / "staging").rglob("*"))) == (ids, 3, [])


@pytest.mark.parametrize("signals", [1, 2])
def test_interrupted_between_two_units(lake, signals):
    """The part that is written and proved is published, the other rolled back; a second signal rolls back both."""
    before, ids, done = lake.on_disk(), lake.ids(), []

    class Interrupting(LocalFileIO):
        def replace(self, path, data, **options):
            super().replace(path, data, **options)
            if "/done-" in path and not done:
                done.append(path)
                os.kill(os.getpid(), signal.SIGTERM)

        def list_dir(self, path):
            if done and path in done[0] and len(done) < signals:
                done.append(path)
                os.kill(os.getpid(), signal.SIGTERM)
            return super().list_dir(path)

    io = Interrupting()
    with interruptible():
        outcome = table(lake, io=io, engine=lambda: InlineEngine(io)).compact()
    published = 2 - signals
    says = "1 of 2 partitions is published, the others" if published else "Interrupted: nothing was changed;"
    assert says in outcome.message
    assert (len(outcome.units), outcome.status) == (published, "partial" if published else "failed")
    assert (lake.ids(), list((lake.state / "staging").rglob("*"))) == (ids, [])
    table(lake).clean()
    if not published:
        assert lake.on_disk() == before
    assert table(lake).compact().status == "committed"
    assert lake.ids() == ids


class Signalling(FaultyFileIO):
    """The local files, with a signal to ourselves right before a version is published."""

    def write_new(self, path, data, **options):
        """Signal, then write."""
        if "/manifest/" in path:
            os.kill(os.getpid(), signal.SIGTERM)
        super().write_new(path, data, **options)


def test_interrupted_in_the_commit(lake):
    """A signal in the commit waits for it: what was published is reported."""
    with interruptible():
        outcome = table(lake, io=Signalling(LocalFileIO())).compact()
    assert (outcome.run is not None, len(outcome.units), lake.versions()) == (True, 2, 3)
    assert len(lake.ids()) == 25


def test_a_restore_and_a_clean_at_once(lake):
    """What a restore brought back while `clean` was on its way is not removed."""
    run = table(lake).compact(JsonlOptions(keep_days=0)).run
    opened = table(lake).open()
    plan = opened.plan_clean(None)
    assert len(plan.sizes) == 5
    ids = lake.ids()
    table(lake).restore(run)
    with table(lake)._run(opened, "clean") as clean:
        assert opened.clean(plan, clean, None).sizes == ()
    assert lake.ids() == ids


# ---- failing storage, and kills ----


class Scene:
    """A table that can be set back to how it was, at the same path."""

    def __init__(self, lake, aside):
        self.lake, self.aside, self.path = lake, aside, str(lake.table)
        self.ids = lake.ids()
        self.save("start")

    def save(self, name):
        """Remember the present state."""
        shutil.copytree(self.lake.root, self.aside / name)

    def set_back(self, name="start"):
        """Put a remembered state back."""
        shutil.rmtree(self.lake.root)
        shutil.copytree(self.aside / name, self.lake.root)

    def steps(self, children, start="start", **call):
        """Name the steps of a call; the table is set back afterwards."""
        done = children.run("jsonl", path=self.path, **call)
        assert "error" not in done, done
        self.set_back(start)
        return done["steps"]

    def kill(self, children, step, moment, **call):
        """Do a call and kill it at a step."""
        fault = {"step": step, "action": "kill", "moment": moment}
        done = children.run("jsonl", path=self.path, fault=fault, **call)
        assert done["status"] == KILLED, (step, moment, done)

    def check_mended(self, where):
        """Recovery: every row once, nothing staged, no second recovery; what the dead left goes by name, no more."""
        assert self.lake.ids() == self.ids, where
        table(self.lake).recover()
        assert not list((self.lake.state / "staging").rglob("*")), where
        assert table(self.lake).recover().to_json()["status"] == "nothing-to-do", where
        assert self.lake.ids() == self.ids, where
        table(self.lake).clean()
        manifest = self.lake.manifest()
        named = [f"{file['partition']}/{file['name']}" for file in (*manifest["files"], *manifest["kept"])]
        assert self.lake.on_disk() == sorted(named), where

    def check_usable(self, where):
        """The next compaction succeeds or has nothing to do."""
        outcome = table(self.lake).compact()
        assert outcome.status in ("committed", "nothing-to-do"), (where, outcome.skipped)
        assert (self.lake.ids(), len(self.lake.live())) == (self.ids, 2), where


@pytest.fixture
def scene(lake, tmp_path):
    """The lake, with its past."""
    return Scene(lake, tmp_path / "aside")


@pytest.mark.parametrize("moment", ["before", "after"])
def test_compaction_killed_at_every_step(scene, children, moment):
    """Killed anywhere, a compaction happened or it did not; recovery and cleaning leave every row, and no more."""
    steps = scene.steps(children, verb="compact")
    assert len(steps) > 20
    for step, name in some(enumerate(steps)):
        where = f"killed {moment} step {step}: {name}"
        scene.kill(children, step, moment, verb="compact")
        scene.check_mended(where)
        scene.check_usable(where)
        scene.set_back()


@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("verb", ["restore", "clean"])
def test_other_verbs_killed_at_every_step(scene, children, verb, moment):
    """Killed anywhere in a restore or a clean, all rows are there, and the same command finishes the work."""
    run = table(scene.lake).compact(JsonlOptions(keep_days=0)).run
    scene.save("compacted")
    call = {"verb": verb, "run": run if verb == "restore" else None}
    for step, name in some(enumerate(scene.steps(children, start="compacted", **call))):
        where = f"killed {moment} step {step}: {name}"
        scene.kill(children, step, moment, **call)
        assert scene.lake.ids() == scene.ids, where
        children.run("jsonl", path=scene.path, **call)
        assert len(scene.lake.live()) == (5 if verb == "restore" else 2), where
        scene.check_mended(where)
        scene.check_usable(where)
        scene.set_back("compacted")


@pytest.mark.parametrize(
    ("action", "moment"),
    [(Action.FAIL, Moment.BEFORE), (Action.FAIL, Moment.AFTER), (Action.TEAR, Moment.BEFORE)],
)
def test_storage_fails_at_every_step(scene, children, action, moment):
    """A store that fails at any step costs no row: if it failed in the commit, the outputs stay until one looked."""
    for step, name in some(enumerate(scene.steps(children, verb="compact"))):
        where = f"{action} {moment} step {step}: {name}"
        io = FaultyFileIO(LocalFileIO(), fault=Fault(step=step, action=action, moment=moment))
        try:
            table(scene.lake, io=io).compact()
        except CommitUnknownError:
            assert "/manifest/" in name, where
        except PackstoneError as error:
            assert "\n" not in error.message, where  # noqa: PT017 - there may be no error
        for torn in scene.lake.root.rglob("*.torn"):
            torn.unlink()  # the injected half file has a name of its own
        scene.check_mended(where)
        scene.check_usable(where)
        scene.set_back()


@pytest.mark.parametrize("moment", ["before", "after"])
def test_the_history_learns_of_a_killed_run(scene, children, packstone, quiet_env, tmp_path, moment):
    """Killed right before or after its commit, a run is in the history with what it published, or with nothing."""
    call = {"verb": "compact", "unrecorded": quiet_env["PACKSTONE_UNRECORDED"]}
    steps = scene.steps(children, **call, history=f"sqlite:///{tmp_path}/another.db")
    step = next(at for at, name in enumerate(steps) if "/manifest/" in name)
    call["history"] = quiet_env["PACKSTONE_HISTORY"]
    scene.kill(children, step, moment, **call)
    (row,) = packstone("history", "--table", scene.path, "--format", "json").json["runs"]
    published = ("partial", 25) if moment == "after" else ("failed", 0)
    assert (row["family"], (row["status"], row["rows"])) == ("jsonl", published)
    if moment == "after":
        assert packstone("verify", row["run"], "--format", "json").json["status"] == "verified"
        assert packstone("restore", row["run"], "--yes").code == 0
        assert len(scene.lake.live()) == 5


def test_a_killed_command(lake, quiet_env, process):
    """SIGKILL to the real program while it works; ``recover`` and ``compact`` put everything right."""
    ids = lake.ids()
    hook = "import os, signal; from jsonl_family import manifest; "
    hook += "manifest.dump_record = lambda _: os.kill(os.getpid(), signal.SIGKILL); "
    hook += f"import runpy, sys; sys.argv = ['packstone', 'compact', {str(lake.table)!r}]; "
    hook += f"runpy.run_path({str(HERE / 'with_jsonl.py')!r}, run_name='__main__')"
    env = {**quiet_env, "PYTHONPATH": os.pathsep.join((str(HERE), *filter(None, sys.path)))}
    done = subprocess.run([sys.executable, "-c", hook], env=env, capture_output=True, check=False, timeout=patient(120))
    assert done.returncode == KILLED, done.stderr
    assert (lake.ids(), len(lake.on_disk())) == (ids, 7)
    recovered = process("recover", lake.table, "--format", "json")
    assert (recovered.code, recovered.json["status"]) == (0, "recovered")
    (row,) = process("history", "--format", "json").json["runs"]
    assert (row["status"], row["message"]) == ("failed", "The run was killed before it published anything.")
    assert process("clean", lake.table, "--yes", "--format", "json").json["files"] == 2
    assert json.loads(process("compact", lake.table, "--format", "json").out)["status"] == "committed"
    assert lake.ids() == ids


def test_the_log_of_a_library_user(lake, caplog):
    """A run says in the log named packstone when it begins, what each wave is, what is committed, and how it ended."""
    with caplog.at_level(logging.INFO, logger="packstone"):
        outcome = table(lake).compact()
    said = [record.getMessage() for record in caplog.records if record.name == "packstone"]
    assert [line.split(": ")[0] for line in said] == [outcome.run] * 4
    assert [line.split(": ")[1].split(",")[0].split(" ")[0] for line in said] == [
        "compact",
        "wave",
        "committed",
        "ended",
    ]
    assert "dt=1, dt=2" in said[2]
    assert not logging.getLogger("packstone").handlers
