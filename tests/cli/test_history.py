"""``packstone history``: filters, formats, one run in full, forgetting old ones; passwords stay unseen."""

import csv
import io
import re
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from database_servers import PASSWORD
from rich.console import Console

from packstone.cli.commands.history import command
from packstone.history.store import open_history
from packstone.model.outcome import Status
from packstone.pipeline.record import RESTORED

RUN_ID = re.compile(r"\d{8}T\d{6}-[0-9a-f]{6}")
PACKSTONE = Path(sys.executable).with_name("packstone")


@pytest.fixture
def three_runs(packstone, lake):
    """A committed run, a partial one and one that was refused."""
    lake.parquet("dt=1")
    broken = lake.parquet("dt=2")
    (broken / "part-broken.parquet").write_bytes(b"PAR1 no footer")
    busy = lake.parquet("dt=3")
    (busy / "_temporary").mkdir()
    codes = [packstone("compact", lake.table / f"dt={day}").code for day in (1, 2, 3)]
    assert codes == [0, 1, 3]
    return packstone("history", "--format", "json").json["runs"][::-1]


def statuses(done):
    """How the listed runs ended."""
    return [run["status"] for run in done.json["runs"]]


def test_every_status_can_be_listed():
    """The list of what --status takes is the list of what is recorded."""
    recorded = {*Status, RESTORED} - {Status.PLANNED, Status.NOTHING_TO_DO}
    (option,) = (one for one in command.params if one.name == "status")
    assert set(option.type.choices) == recorded


def test_filters(three_runs, packstone, lake):
    """By table, by one or several statuses, by family, by moments and ages, and all of them together."""

    def listed(*filters):
        return statuses(packstone("history", "--format", "json", *filters))

    refused = three_runs[-1]
    assert listed() == ["refused", "partial", "committed"]
    assert listed("--status", "partial", "--status", "refused") == ["refused", "partial"]
    assert listed("--table", lake.table / "dt=1") == ["committed"]
    assert listed("--family", "paimon") == []
    assert listed("--family", "hive", "--limit", "1") == ["refused"]
    assert listed("--since", "1h") == ["refused", "partial", "committed"]
    assert listed("--until", "1h") == []
    assert listed("--since", "2020-01-01", "--until", "2020-01-02") == []
    late = (datetime.fromisoformat(refused["started_at"]) + timedelta(seconds=1)).isoformat()
    assert listed("--until", late, "--status", "committed") == ["committed"]
    assert packstone("history", "--table", lake.table / "dt=4").out == "No recorded run matches these options.\n"
    done = packstone("history", "--status", "finished")
    assert (done.code, "'finished' is not one of 'committed', 'partial'" in done.sentence) == (2, True)
    done = packstone("history", "--since", "tomorrow")
    assert (done.code, "neither a time nor an age" in done.sentence) == (2, True)


@pytest.mark.parametrize("width", [80, 90, 100, 250])
def test_a_run_is_one_line(packstone, lake, monkeypatch, width):
    """Numbers are whole; a path that has no room is shown by its end, and the read times give way before it."""
    lake.parquet(files=100, rows=4000)
    packstone("compact", lake.table)
    console = Console(file=io.StringIO(), width=width, highlight=False)
    monkeypatch.setattr("packstone.cli.output.make_console", lambda: console)
    packstone("history")
    head, line = (line.rstrip() for line in console.file.getvalue().splitlines())
    run, status, path, numbers = re.fullmatch(r"(\S+) +(\S+) +(\S+) +(\d.*)", line).groups()
    assert (RUN_ID.fullmatch(run) is not None, status) == (True, "committed")
    assert re.match(r"100 → \d+ +[\d.]+ MB → [\d.]+ [KM]B ", numbers)
    assert path == str(lake.table) if width == 250 else (path[0], path[-7:]) == ("…", "/orders")
    assert ("read s" in head) == (width > 80)
    assert len(line) <= width


def test_csv_has_the_keys_of_json(three_runs, packstone):
    """The same runs, the same keys, one line each; commas and line ends in a message survive."""
    rows = list(csv.DictReader(io.StringIO(packstone("history", "--format", "csv").out)))
    assert [list(row) for row in rows] == [list(three_runs[0])] * 3
    assert [row["message"] for row in rows] == [run["message"] for run in three_runs[::-1]]
    assert packstone("history", "--format", "csv", "--family", "paimon").out.count("\n") == 1


def test_one_run_in_full(three_runs, packstone):
    """``show`` has the merges with the names of their files, and what was left alone with its kind."""
    _, partial, _ = three_runs
    shown = packstone("history", "show", partial["run"], "--format", "json").json
    (unit,) = shown["units"]
    assert (len(unit["input_names"]), len(unit["output_names"]), unit["status"]) == (6, 1, "committed")
    (skip,) = shown["skipped"]
    assert (skip["what"], skip["kind"]) == ("dt=2/part-broken.parquet", "unreadable")
    assert {name: shown[name] for name in partial} == partial
    assert "unreadable" in packstone("history", "show", partial["run"]).out
    unknown = packstone("history", "show", "nosuch")
    assert (unknown.code, "has no run nosuch" in unknown.sentence) == (2, True)


def test_keys_of_one_run_are_documented(three_runs, packstone):
    """What ``show`` has besides the keys of a run is in docs/json.md, name by name."""
    shown = packstone("history", "show", three_runs[1]["run"], "--format", "json").json
    page = (Path(__file__).parents[2] / "docs" / "json.md").read_text(encoding="utf-8")
    rows = dict(
        re.findall(
            r"^\| `(\w+)` \| (.*) \|$", page.partition("## `history show`")[2].partition("\n## ")[0], re.MULTILINE
        )
    )
    assert set(shown) - set(three_runs[1]) == {"format_version", *rows}
    for name in ("units", "skipped"):
        assert re.findall(r"`(\w+)`", rows[name]) == list(shown[name][0])


def test_forgetting_old_runs(three_runs, packstone, quiet_env):
    """A dry run counts, without a terminal it wants --yes, and then only what is older is gone."""
    with open_history(quiet_env["PACKSTONE_HISTORY"]) as history:
        (run,) = history.list_runs(status="committed")
        old = run.__class__(
            **{name: getattr(run, name) for name in run.__slots__}
            | {"run": "old", "started_at": datetime.now(UTC) - timedelta(days=91)}
        )
        history.record_run(old)
    prune = ("history", "prune", "--older-than", "90d")
    assert packstone(*prune, "--dry-run", "--format", "json").json["runs"] == 1
    asked = packstone(*prune)
    assert (asked.code, "give --yes" in asked.sentence) == (2, True)
    assert len(packstone("history", "--format", "json").json["runs"]) == 4
    done = packstone(*prune, "--yes", "--format", "json").json
    assert (done["status"], done["runs"]) == ("pruned", 1)
    assert packstone("history", "--history", quiet_env["PACKSTONE_HISTORY"], "prune", "--older-than", "90d").out == (
        "Nothing to delete.\n"
    )
    assert len(packstone("history", "--format", "json").json["runs"]) == 3


def test_password_is_seen_nowhere(database_server, quiet_env, lake, tmp_path):
    """Neither output nor process title nor any file that a run writes has the password of the environment."""
    url = database_server.url(database_server.make("seen_nowhere"), password=None)
    env = quiet_env | {"PACKSTONE_HISTORY": url, "PACKSTONE_HISTORY_PASSWORD": PASSWORD}
    lake.parquet("dt=1", files=50)
    command = [PACKSTONE, "compact", lake.table, "--format", "json", "--debug"]
    process = subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    titles = set()
    while process.poll() is None:
        titles |= {path.read_bytes() for path in Path("/proc").glob(f"{process.pid}/cmdline")}
        time.sleep(0.01)
    out, err = process.communicate()
    assert (process.returncode, PASSWORD in out + err) == (0, False)
    assert titles
    assert not any(PASSWORD.encode() in title for title in titles)
    written = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert not [path for path in written if PASSWORD.encode() in path.read_bytes()]
    shown = subprocess.run([PACKSTONE, "history"], env=env, check=True, capture_output=True, text=True)
    assert "committed" in shown.stdout
    assert PASSWORD not in shown.stdout + shown.stderr
