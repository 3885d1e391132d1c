"""Journals of the first version, which knew local files, two formats and three fields of permissions, are still used.

The records are written here as that version wrote them. Every field that came later has a default, or these fail.
"""

import os
from string import Template

import pytest

from packstone.pipeline.table import Table

RUN = "20250101T000000-0a1b2c"
PROCESS = '{"host":"old-host","boot_id":"0","pid":4711,"started_ticks":99}'
RUN_JSON = Template(
    '{"format_version":1,"run":"$run","command":"compact","table":"$root/orders",'
    '"process":$process,"started_at":"2025-01-01T00:00:00+00:00"}'
)
OWNER_JSON = Template(
    '{"format_version":1,"run":"$run","process":$process,'
    '"heartbeat_path":"$root/.packstone/orders/runs/$run/heartbeat","released":false}'
)
INTENT_JSON = Template(
    '{"format_version":1,"run":"$run","number":1,"partition":"dt=1","directory":"$root/orders/dt=1",'
    '"backup_directory":"$root/.packstone/orders/backup/$run/dt=1","inputs":['
    '{"name":"part-0.csv","size_bytes":2,"mtime_ns":1735689600000000000,"permissions":{"uid":$uid,"gid":$gid,"mode":416}},'
    '{"name":"part-1.csv","size_bytes":2,"mtime_ns":1735689601000000000,"permissions":{"uid":$uid,"gid":$gid,"mode":416}}'
    '],"outputs":[{"staged_path":"$root/.packstone/orders/staging/$run/u1.data","name":"packstone-$run-00001m.csv",'
    '"size_bytes":4,"mtime_ns":1735689602000000000,"rows":2,"fingerprint":"2 rows 0","verified":"count",'
    '"how":"concatenate","header_lines":0,"inputs":["part-0.csv","part-1.csv"]}],'
    '"summaries":[],"keep_until":1735776000.0}'
)


def put(path, data, *, seconds):
    """Write a file with a time and a mode."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    path.chmod(0o640)
    os.utime(path, ns=(seconds * 10**9,) * 2)


@pytest.fixture
def old(tmp_path):
    """A swap of the first version that was killed after it had moved one of two originals."""
    state = tmp_path / ".packstone" / "orders"
    put(tmp_path / "orders/dt=1/part-1.csv", b"1\n", seconds=1735689601)
    put(state / "backup" / RUN / "dt=1/part-0.csv.kept", b"0\n", seconds=1735689600)
    put(state / "staging" / RUN / "u1.data", b"0\n1\n", seconds=1735689602)
    names = {"run": RUN, "root": tmp_path, "process": PROCESS, "uid": os.getuid(), "gid": os.getgid()}
    for path, record in (
        (state / "runs" / RUN / "run.json", RUN_JSON),
        (state / "runs" / RUN / "dt=1~1.intent.json", INTENT_JSON),
        (state / "owners/dt=1/000001.json", OWNER_JSON),
    ):
        put(path, record.substitute(names).encode(), seconds=1735689603)
    return tmp_path


def lines(root):
    """The visible lines by file."""
    return {path.name: path.read_bytes() for path in (root / "orders/dt=1").iterdir()}


def test_an_old_swap_is_finished_and_undone(old):
    """Recovery finishes it; then the run is listed, proved and restored: the originals, byte for byte, with modes."""
    table = Table(str(old / "orders"))
    (action,) = table.recover(take_over=True).actions
    assert "dt=1" in action
    assert lines(old) == {f"packstone-{RUN}-00001m.csv": b"0\n1\n"}
    assert table.recover().actions == ()
    table.restore(RUN)
    assert lines(old) == {"part-0.csv": b"0\n", "part-1.csv": b"1\n"}
    assert {path.stat().st_mode & 0o777 for path in (old / "orders/dt=1").iterdir()} == {0o640}


def test_an_old_backup_is_cleaned(old):
    """Its time to keep is long over: a clean removes the recorded originals, and nothing else."""
    table = Table(str(old / "orders"))
    table.recover(take_over=True)
    assert table.clean().to_json()["status"] != "nothing-to-do"
    assert not list(old.rglob("*.kept"))
    assert lines(old) == {f"packstone-{RUN}-00001m.csv": b"0\n1\n"}
