"""How the command behaves: what goes where, what it imports, what it asks, and what it never says."""

import json
import os
import pty
import re
import select
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from patience import patient

from packstone.cli.main import COMMANDS

PACKSTONE = str(Path(sys.executable).with_name("packstone"))
OUTCOME_KEYS = [
    "format_version",
    "run",
    "table",
    "family",
    "strategy",
    "status",
    "files_before",
    "files_after",
    "bytes_before",
    "bytes_after",
    "rows",
    "verified",
    "engine",
    "seconds",
    "verify_seconds",
    "commit_ms",
    "reader_gap_ms",
    "cost",
    "units",
    "skipped",
]


def documented_keys(title: str) -> list[str]:
    """The keys that a section of docs/json.md lists, in their order."""
    page = (Path(__file__).parents[2] / "docs" / "json.md").read_text()
    section = page.split(f"\n## {title}\n")[1].split("\n## ")[0]
    return re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE)


class Terminal:
    """A command on a terminal of its own, typed at by the test."""

    def __init__(self, arguments: list[str], env: dict[str, str]) -> None:
        self.screen = ""
        self.pid, self._terminal = pty.fork()
        if self.pid == 0:
            with suppress(OSError):
                os.execve(PACKSTONE, [PACKSTONE, *arguments], env)  # noqa: S606 - our own command
            os._exit(127)

    def read_until(self, text: str) -> None:
        """Read what is shown until a text appears."""
        deadline = time.monotonic() + patient(60)
        while text not in self.screen:
            assert time.monotonic() < deadline, self.screen
            if not self._read():
                raise AssertionError(self.screen)

    def type(self, keys: str) -> None:
        """Press keys, as a person does: once the question is on the screen and the command waits for the answer."""
        time.sleep(0.2)  # a Ctrl-C between the question and the waiting would be held back until the next key
        os.write(self._terminal, keys.encode())

    def finish(self) -> int:
        """Read to the end; return the exit code."""
        while self._read():
            pass
        deadline = time.monotonic() + patient(30)
        while (ended := os.waitpid(self.pid, os.WNOHANG)) == (0, 0):
            if time.monotonic() > deadline:
                os.kill(self.pid, signal.SIGKILL)
            time.sleep(0.01)
        os.close(self._terminal)
        return os.waitstatus_to_exitcode(ended[1])

    def _read(self) -> bool:
        with suppress(OSError):
            if select.select([self._terminal], [], [], patient(60))[0]:
                chunk = os.read(self._terminal, 65_536)
                self.screen += chunk.decode("utf-8", "replace")
                return bool(chunk)
        return False


class TestHelp:
    """Help is quick because it imports nothing heavy."""

    def test_help_imports_nothing_heavy(self, quiet_env):
        """``--help`` of every command ends with 0 and without pyspark, pyarrow, SQLAlchemy, sqlglot or rich."""
        program = (
            "import sys\n"
            "from packstone.cli.main import COMMANDS, run\n"
            "codes = {run([*words, '--help']) for words in ([], *([command] for command in COMMANDS))}\n"
            "heavy = {'pyspark', 'pyarrow', 'numpy', 'sqlalchemy', 'sqlglot', 'rich', 'pandas'} & set(sys.modules)\n"
            "print(codes, sorted(heavy), file=sys.stderr)\n"
        )
        done = subprocess.run(
            [sys.executable, "-c", program], env=quiet_env, capture_output=True, check=True, text=True
        )
        assert done.stderr == "{0} []\n"
        assert done.stdout.count("Usage: packstone") == 1 + len(COMMANDS)

    def test_a_process_that_leaves_the_files_to_workers_does_not_import_pyarrow(self, quiet_env):
        """What a compaction of a Hive directory imports before it opens a data file is quick to import."""
        program = (
            "import sys\n"
            "import packstone.cli.commands.compact, packstone.pipeline.table, packstone.tables.hive.table\n"
            "import packstone.runs.worker_pool, packstone.tables.hive.recover\n"
            "print(sorted({'pyspark', 'pyarrow', 'numpy', 'pandas'} & set(sys.modules)))\n"
        )
        done = subprocess.run([sys.executable, "-c", program], env=quiet_env, capture_output=True, check=True)
        assert done.stdout == b"[]\n"

    def test_every_option_says_what_it_does(self, packstone):
        """No option is listed without a text."""
        for command in COMMANDS:
            text = packstone(command, "--help").out
            entries = re.findall(r"^  (-.*?)(?=\n  -|\n\n|\Z)", text.rstrip(), re.MULTILINE | re.DOTALL)
            assert any("--help" in entry for entry in entries), command
            for entry in entries:
                described = re.split(r"\s{2,}|\n", entry.strip(), maxsplit=1)
                assert len(described) == 2, (command, entry)

    def test_the_help_names_every_command_and_the_exit_codes(self, packstone):
        """One screen lists the commands."""
        text = packstone("--help").out
        for command in COMMANDS:
            assert f"  {command} " in text
        assert "Exit codes: 0" in text

    def test_no_arguments_shows_the_help(self, packstone):
        """Called with nothing it shows its commands, exit code 2."""
        done = packstone()
        assert done.code == 2
        assert "Commands:" in done.err

    def test_version(self, packstone):
        """The version is printed on stdout."""
        done = packstone("--version")
        assert done.code == 0
        assert re.fullmatch(r"packstone, version \d+\.\d+\.\d+\S*\n", done.out)
        assert packstone("-V") == done

    def test_as_a_module(self, packstone, quiet_env, lake):
        """``python -m packstone`` is the same command."""
        lake.parquet()
        command = [sys.executable, "-m", "packstone", "health", str(lake.table), "--format", "json"]
        done = subprocess.run(command, env=quiet_env, capture_output=True, check=True)
        assert json.loads(done.stdout) == packstone("health", lake.table, "--format", "json").json

    def test_health_and_plan_need_no_spark(self, quiet_env, lake):
        """Even where Spark would do the work, looking does not import it."""
        lake.parquet()
        program = (
            "import sys\n"
            "from packstone.cli.main import run\n"
            "code = run(['health', sys.argv[1]]) or run(['plan', sys.argv[1]])\n"
            "sys.exit(code or ('pyspark' in sys.modules))\n"
        )
        env = {**quiet_env, "PACKSTONE_ENGINE": "spark"}
        done = subprocess.run([sys.executable, "-c", program, lake.table], env=env, capture_output=True, check=False)
        assert done.returncode == 0, done.stderr


class TestStreams:
    """Stdout carries the result, stderr the rest."""

    def test_a_merge_writes_nothing_to_stderr_without_a_terminal(self, packstone_process, lake):
        """No progress bar on a pipe; JSON on stdout and nothing else."""
        lake.parquet()
        done = packstone_process("compact", lake.table, "--format", "json")
        assert (done.code, done.err) == (0, "")
        assert done.json["status"] == "committed"

    def test_table_output_without_a_terminal(self, packstone_process, lake):
        """No colours and no control codes where nobody watches, and lines of at most 100 columns but for paths."""
        lake.parquet("dt=1")
        for arguments in (("health", lake.table), ("plan", lake.table), ("compact", lake.table), ("history",)):
            done = packstone_process(*arguments)
            assert done.code == 0
            assert "\x1b" not in done.out
            assert done.err == ""
            long = [line for line in done.out.splitlines() if len(line) > 100 and str(lake.table) not in line]
            assert long == []

    def test_progress_goes_to_the_terminal_on_stderr(self, quiet_env, lake):
        """With stderr on a terminal and stdout in a file, the file holds the result only."""
        lake.parquet(files=40)
        out = lake.root / "out.json"
        master, slave = pty.openpty()
        with out.open("wb") as sink:
            process = subprocess.Popen(
                [PACKSTONE, "compact", lake.table, "--format", "json"], env=quiet_env, stdout=sink, stderr=slave
            )
            os.close(slave)
            shown = b""
            with suppress(OSError):
                while chunk := os.read(master, 65_536):
                    shown += chunk
            assert process.wait() == 0
        os.close(master)
        assert json.loads(out.read_bytes())["status"] == "committed"
        assert b"merging" in shown
        assert shown.index(f"listing {lake.table.name}".encode()) < shown.index(b"merging")

    def test_progress_in_lines_without_a_terminal(self, packstone_process, lake):
        """What is done of what, how fast and how long the rest takes: for logs and mails; nothing with --quiet."""
        for day in range(10):
            lake.parquet(f"dt={day}", files=20, rows=2000)
        shutil.copytree(lake.root, lake.root.with_name("again"))
        env = {"PACKSTONE_PROGRESS_SECONDS": "0.01"}
        done = packstone_process("compact", lake.table, "--format", "json", env=env)
        assert (done.code, done.json["status"]) == (0, "committed")
        lines = done.err.splitlines()
        size = r"[\d.,]+ \w+"
        assert any(re.fullmatch(rf"packstone: listing {lake.table.name}, .+ so far", line) for line in lines), lines
        with_rate = rf"packstone: \d/10 merges, {size} of {size}, {size}/s, about .+ left"
        without = rf"packstone: (0|10)/10 merges, {size} of {size}, .+ so far"
        known = [line for line in lines if "merges" in line]
        assert known
        assert all(re.fullmatch(f"{with_rate}|{without}", line) for line in known), known
        other = lake.root.with_name("again") / lake.table.name
        done = packstone_process("compact", other, "--format", "json", "--quiet", env=env)
        assert (done.code, done.err, done.json["status"]) == (0, "", "committed")

    def test_ascii_only_streams(self, packstone_process, lake):
        """A stream that cannot draw a bar or an arrow gets something it can, not a trace."""
        lake.parquet("dt=日本")
        env = {"PYTHONIOENCODING": "ascii", "LC_ALL": "C", "PYTHONUTF8": "0"}
        for arguments in (("health", lake.table), ("compact", lake.table), ("compact", lake.root / "日本")):
            done = packstone_process(*arguments, env=env)
            assert "Traceback" not in done.err
            assert "Unexpected" not in done.err

    @pytest.mark.parametrize("output_format", ["table", "json"])
    def test_broken_pipe(self, quiet_env, lake, output_format):
        """``packstone history | head -1`` ends quietly, whoever hangs up first."""
        for partition in range(60):
            lake.parquet(f"dt={partition}", files=5, rows=1)
        done = subprocess.run(
            ["sh", "-c", f"{PACKSTONE} plan {lake.table} --format {output_format} | head -1"],
            env=quiet_env,
            capture_output=True,
            check=False,
            text=True,
        )
        assert len(done.stdout.splitlines()) == 1
        assert done.stderr == ""

    def test_closed_stdout(self, quiet_env, lake):
        """Nobody reads at all: no trace, and the work is done anyway."""
        lake.parquet()
        read, write = os.pipe()
        os.close(read)
        done = subprocess.run(
            [PACKSTONE, "compact", lake.table], env=quiet_env, stdout=write, stderr=subprocess.PIPE, check=False
        )
        os.close(write)
        assert done.stderr == b""
        assert len(lake.names()) == 1


class TestJson:
    """The keys that other programs rely on."""

    def test_outcome_keys(self, packstone, lake):
        """plan, compact and merge have the documented keys in the documented order."""
        lake.parquet("dt=1")
        lake.text("dt=1", {"empty": b""})
        for arguments in (
            ("plan", lake.table),
            ("compact", lake.table),
            ("merge", "file:///", lake.table, "120M"),
        ):
            plain = packstone(*arguments, "--format", "json").json
            assert list(plain)[: len(OUTCOME_KEYS)] == OUTCOME_KEYS
            assert list(plain) == documented_keys("`plan`, `compact`, `merge`")
            for unit in plain["units"]:
                assert list(unit)[:5] == ["part", "inputs", "outputs", "how", "why"]
            for skip in plain["skipped"]:
                assert list(skip)[:2] == ["what", "why"]

    def test_numbers_are_of_the_target(self, packstone, lake):
        """``files_*`` and ``bytes_*`` count visible data files, ``rows`` the rows of the outputs."""
        lake.parquet("dt=1")
        lake.parquet("dt=2", files=2)
        (lake.table / "dt=1" / "_SUCCESS").touch()

        def visible() -> tuple[int, int]:
            found = [path for path in lake.table.rglob("*.parquet") if not path.name.startswith((".", "_"))]
            return len(found), sum(path.stat().st_size for path in found)

        before = visible()
        plan = packstone("plan", lake.table, "--format", "json").json
        plain = packstone("compact", lake.table, "--format", "json").json
        assert (plain["files_before"], plain["bytes_before"]) == before == (8, before[1])
        assert (plain["files_after"], plain["bytes_after"]) == visible() == (3, visible()[1])
        assert (plan["files_before"], plan["files_after"], plan["status"]) == (8, 3, "planned")
        assert plain["rows"] == 60

    def test_keys_of_the_other_commands(self, packstone, lake):
        """health, verify, restore, recover, clean and history: exactly what docs/json.md lists."""
        lake.parquet("dt=1")
        run = packstone("compact", lake.table, "--keep-days", "0", "--format", "json").json["run"]
        calls = {
            "health": ("health", lake.table),
            "options": ("options", lake.table),
            "verify": ("verify", run),
            "recover": ("recover", lake.table),
            "clean": ("clean", lake.table, "--dry-run"),
            "clean --all": ("clean", "--all", "--dry-run"),
            "history": ("history",),
            "history prune": ("history", "prune", "--older-than", "1d", "--dry-run"),
            "restore": ("restore", run, "--yes"),
        }
        for command, arguments in calls.items():
            done = packstone(*arguments, "--format", "json")
            assert done.code == 0, done.err
            documented = documented_keys(f"`{command}`")
            shown = done.json["runs"][0] if command == "history" else done.json
            assert documented == list(shown), command

    def test_several_targets(self, packstone, lake):
        """The health of many is a list, that of one is itself."""
        lake.parquet("dt=1")
        lake.parquet("dt=2")
        both = packstone("health", lake.table / "dt=1", lake.table / "dt=2", "--format", "json").json
        assert [table["files"] for table in both["tables"]] == [6, 6]

    def test_odd_names_survive_json(self, packstone_process, lake):
        """Bytes that are no text come out as escapes that Python reads back."""
        folder = lake.folder()
        names = [
            os.fsdecode(b"f-\xff\xfe.parquet"),
            "f\nnewline.parquet",
            "fé=日.parquet",
            "f %3A.parquet",
            "f'\".parquet",
        ]
        for at, name in enumerate(names):
            with (folder / name).open("wb") as file:
                pq.write_table(pa.table({"id": [at]}), file)
        done = packstone_process("compact", lake.table, "--format", "json")
        assert done.code == 0, done.err
        assert sorted(done.json["units"][0]["inputs"]) == sorted(names)
        assert packstone_process("restore", done.json["run"], "--yes").code == 0
        assert lake.names() == sorted(names)


class TestAsking:
    """``restore`` and ``clean`` ask on a terminal and need ``--yes`` without one."""

    def committed(self, packstone, lake) -> str:
        """A run whose backup may go at once."""
        lake.parquet("dt=1")
        return packstone("compact", lake.table, "--keep-days", "0", "--format", "json").json["run"]

    def test_no_terminal_and_no_yes(self, packstone, lake, tree):
        """A script that forgot ``--yes`` gets an error; nothing happens."""
        run = self.committed(packstone, lake)
        before = tree(lake.root)
        for arguments in (("restore", run, lake.table), ("restore", run), ("clean", lake.table)):
            done = packstone(*arguments)
            assert done.code == 2
            assert done.sentence.endswith("and there is no terminal: give --yes.")
        assert tree(lake.root) == before

    def test_restore_does_not_ask_in_vain(self, packstone, lake):
        """An unknown run is refused, and an undone one is reported, before anybody is asked."""
        unknown = "20190101T000000-abcdef"
        run = self.committed(packstone, lake)
        done = packstone("restore", unknown, lake.table)
        assert (done.code, f"There is no run {unknown}" in done.sentence) == (2, True)
        assert packstone("restore", run, lake.table, "--yes").code == 0
        done = packstone("restore", run, lake.table)
        assert (done.code, done.out) == (0, f"Run {run} was already undone; nothing to do.\n")

    def test_clean_with_nothing_to_clean_does_not_ask(self, packstone, lake):
        """Nothing to remove is nothing to ask."""
        lake.parquet("dt=1")
        packstone("compact", lake.table)
        done = packstone("clean", lake.table)
        assert (done.code, done.err) == (0, "")

    @pytest.mark.parametrize("command", ["restore", "clean"])
    def test_yes_on_a_terminal(self, packstone, lake, quiet_env, command):
        """Asked and answered with y, it is done."""
        run = self.committed(packstone, lake)
        arguments = ["restore", run] if command == "restore" else ["clean", str(lake.table)]
        terminal = Terminal(arguments, quiet_env)
        terminal.read_until("[y/N]")
        terminal.type("y\n")
        assert terminal.finish() == 0
        backup = lake.root / ".packstone" / "orders" / "backup" / run / "dt=1"
        assert not backup.exists()
        assert len(lake.names("dt=1")) == (6 if command == "restore" else 1)

    @pytest.mark.parametrize("keys", ["n\n", "\n", "\x03", "\x04"], ids=["no", "enter", "ctrl-c", "ctrl-d"])
    @pytest.mark.sample(4)
    def test_anything_else_on_a_terminal(self, packstone, lake, quiet_env, tree, keys):
        """No, nothing, Ctrl-C and Ctrl-D all change nothing."""
        run = self.committed(packstone, lake)
        before = tree(lake.root)
        terminal = Terminal(["restore", run], quiet_env)
        terminal.read_until("[y/N]")
        terminal.type(keys)
        assert terminal.finish() in ((130,) if keys == "\x03" else (0, 1))
        assert "Traceback" not in terminal.screen
        assert ("Nothing was changed." in terminal.screen) == keys.endswith("\n")
        assert tree(lake.root) == before


class TestRuns:
    """Runs are found by their name, with the history or without."""

    def test_restore_and_verify_ask_the_history(self, packstone, lake, tree):
        """Without TARGET the history tells which table the run was of."""
        lake.parquet("dt=1")
        before = tree(lake.table)
        run = packstone("compact", lake.table / "dt=1", "--format", "json").json["run"]
        assert packstone("verify", run).code == 0
        assert packstone("restore", run, "--yes").code == 0
        assert tree(lake.table) == before

    def test_restore_without_the_history(self, packstone, lake, tree, tmp_path):
        """With TARGET no history is needed: the journal lives with the data."""
        lake.parquet("dt=1")
        before = tree(lake.table)
        run = packstone("compact", lake.table, "--format", "json").json["run"]
        (tmp_path / "history.db").unlink()
        assert packstone("verify", run, lake.table).code == 0
        assert packstone("restore", run, lake.table / "dt=1", "--yes").code == 0
        assert tree(lake.table) == before

    def test_verify_tells_a_changed_output(self, packstone, lake):
        """An output that is no longer what was proved is exit code 1, with both fingerprints."""
        folder = lake.parquet("dt=1")
        run = packstone("compact", lake.table, "--format", "json").json["run"]
        (merged,) = folder.iterdir()
        rows = pq.read_table(merged, partitioning=None)
        pq.write_table(rows.slice(1), merged)
        done = packstone("verify", run, lake.table, "--format", "json")
        assert (done.code, done.json["status"]) == (1, "failed")
        assert "59 rows" in done.json["problems"][0]

    def test_a_history_that_cannot_be_written_is_a_warning(self, packstone, lake, tmp_path):
        """The merge is done and says so; that it was not recorded is reported on stderr."""
        lake.parquet("dt=1")
        (tmp_path / "full").mkdir()
        url = "postgresql+psycopg://me@localhost:1/history?connect_timeout=1"
        if pytest.importorskip("sqlalchemy") and not _has_driver("psycopg"):
            url = f"sqlite:///{tmp_path}/full"
        done = packstone("compact", lake.table, "--history", url, "--format", "json")
        assert (done.code, done.json["status"]) == (0, "committed")
        assert done.sentence.startswith("packstone: The run is done but could not be recorded")

    def test_the_history_tells_first_what_went_wrong(self, packstone, lake):
        """A broken file is not hidden behind partitions that needed nothing."""
        for partition in range(8):
            lake.parquet(f"dt={partition}", files=1)
        lake.parquet("dt=9", files=6)
        (lake.table / "dt=9" / "zz.parquet").write_bytes(b"PAR1")
        assert packstone("compact", lake.table).code == 1
        (run,) = packstone("history", "--format", "json").json["runs"]
        assert run["message"].startswith("dt=9/zz.parquet: ")

    def test_runs_are_listed_newest_first(self, packstone, lake):
        """With filters by table, status and number."""
        for partition in ("dt=1", "dt=2", "dt=3"):
            lake.parquet(partition)
            packstone("compact", lake.table / partition)
        runs = packstone("history", "--format", "json").json["runs"]
        assert [run["table"][-4:] for run in runs] == ["dt=3", "dt=2", "dt=1"]
        assert len(packstone("history", "--limit", "2", "--format", "json").json["runs"]) == 2
        one = packstone("history", "--table", lake.table / "dt=2", "--format", "json").json["runs"]
        assert [run["table"][-4:] for run in one] == ["dt=2"]
        assert packstone("history", "--status", "failed", "--format", "json").json["runs"] == []


def _has_driver(name: str) -> bool:
    from importlib.util import find_spec

    return find_spec(name) is not None


class TestTrace:
    """A stack trace only on request."""

    def test_debug_shows_it(self, packstone, lake):
        """With ``--debug`` the trace comes before the sentence; without it there is one line."""
        plain = packstone("plan", lake.root / "nowhere")
        assert "Traceback" not in plain.err
        debug = packstone("plan", lake.root / "nowhere", "--debug")
        assert (debug.code, plain.code) == (2, 2)
        assert "Traceback" in debug.err
        assert debug.err.splitlines()[-1] == plain.sentence

    def test_the_environment_can_ask_for_it_too(self, packstone, lake, monkeypatch):
        """``PACKSTONE_DEBUG=1`` is for jobs whose command line nobody can change."""
        monkeypatch.setenv("PACKSTONE_DEBUG", "1")
        assert "Traceback" in packstone("plan", lake.root / "nowhere").err


class TestSecrets:
    """A password in the history's address is never shown."""

    SECRET = "hunter2%40x"  # noqa: S105 - what must not be shown

    @pytest.mark.parametrize(
        "url",
        [
            "postgresql+psycopg://me:{}@localhost:1/history",
            "mysql+pymysql://me:{}@127.0.0.1:1/history",
            "nosuch://me:{}@host/history",
            "postgresql://me:{}@host:notaport/history",
            "me:{}@host/history",
            "mysql+pymysql://me@127.0.0.1:1/history?password={}",
        ],
    )
    @pytest.mark.parametrize("debug", [(), ("--debug",)])
    def test_never_shown(self, packstone, lake, url, debug):
        """Neither by an error, nor by its trace, in either spelling."""
        lake.parquet("dt=1", files=1)
        address = url.format(self.SECRET)
        for arguments in (("history", "--history", address), ("compact", lake.table, "--history", address)):
            done = packstone(*arguments, *debug)
            told = done.out + done.err
            assert "hunter2" not in told, told

    def test_not_in_the_environment_either(self, packstone, lake, monkeypatch):
        """The same for ``PACKSTONE_HISTORY``."""
        monkeypatch.setenv("PACKSTONE_HISTORY", f"nosuch://me:{self.SECRET}@host/history")
        done = packstone("history")
        assert done.code == 2
        assert "hunter2" not in done.err


class TestSignals:
    """SIGTERM and Ctrl-C publish what is written and proved, and roll back the rest."""

    @pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
    def test_interrupted_while_merging(self, quiet_env, lake, number, packstone):
        """Stopped in the middle: what is written is published, one sentence says how much, the history has one row."""
        for partition in range(40):
            lake.parquet(f"dt={partition}", files=5, rows=2000)
        ids = lake.ids()
        process = subprocess.Popen(
            [PACKSTONE, "compact", lake.table, "--format", "json"],
            env=quiet_env,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        staging = lake.root / ".packstone" / "orders" / "staging"
        deadline = time.monotonic() + patient(60)
        while not list(staging.rglob("done-*")) and time.monotonic() < deadline and process.poll() is None:
            time.sleep(0.002)
        process.send_signal(number)
        out, err = process.communicate(timeout=patient(60))
        assert process.returncode == 128 + number
        said = re.fullmatch(
            r"packstone: (Interrupted: (\d+) of 40 partitions (is|are) published, the others are unchanged; run the "
            r"command again to continue\.)\n",
            err.decode(),
        )
        assert said is not None, err
        outcome = json.loads(out)
        assert (outcome["status"], outcome["message"]) == ("partial", said[1])
        assert len(outcome["units"]) == int(said[2]) == sum(len(lake.names(f"dt={at}")) == 1 for at in range(40)) > 0
        history = packstone("history", "--format", "json").json["runs"]
        assert [(run["run"], run["status"]) for run in history] == [(outcome["run"], "partial")]
        assert lake.ids() == ids
        assert not staging.exists()
        assert packstone("recover", lake.table, "--format", "json").json["status"] == "nothing-to-do"

    def test_interrupted_while_publishing(self, quiet_env, lake, packstone):
        """When all is written and proved, all of it is published, shown and recorded before the command ends."""
        for partition in range(60):
            lake.parquet(f"dt={partition}", files=5, rows=100)
        ids = lake.ids()
        process = subprocess.Popen(
            [PACKSTONE, "compact", lake.table, "--format", "json"],
            env=quiet_env,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        deadline = time.monotonic() + patient(60)
        while not list(lake.table.rglob("packstone-*")) and time.monotonic() < deadline and process.poll() is None:
            time.sleep(0.001)
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=patient(60))
        outcome = json.loads(out)
        sentence = "Interrupted: all 60 partitions are published; run the command again to look for more."
        assert (process.returncode, outcome["status"], err.decode()) == (143, "partial", f"packstone: {sentence}\n")
        assert len(list(lake.table.rglob("packstone-*"))) == len(outcome["units"]) == 60
        assert "interrupted" in outcome["skipped"][-1]["why"]
        assert lake.ids() == ids
        (recorded,) = packstone("history", "--format", "json").json["runs"]
        assert (recorded["run"], recorded["status"]) == (outcome["run"], "partial")
        assert packstone("compact", lake.table, "--format", "json").json["files_after"] == 60
