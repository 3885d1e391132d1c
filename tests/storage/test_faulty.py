"""The store that goes wrong on purpose: it must go wrong exactly where it is configured to, and nowhere else."""

import pytest

from packstone.storage.faulty import Action, Fault, FaultyFileIO, Moment
from packstone.storage.memory import MemoryFileIO

CALLS = (
    ("make_dirs", ("/f",)),
    ("write_new", ("/f/a", b"12345678")),
    ("replace", ("/f/b", b"12345678")),
    ("move", ("/f/a", "/f/c")),
    ("sync_file", ("/f/c",)),
    ("sync_dir", ("/f",)),
    ("remove", ("/f/b",)),
    ("make_dirs", ("/f/empty",)),
    ("remove_empty_dir", ("/f/empty",)),
    ("remove_tree", ("/f",)),
)


def run_all(io):
    """Make every kind of step once."""
    for name, arguments in CALLS:
        getattr(io, name)(*arguments)


def state(io):
    """All that the inner store holds."""
    return dict(io._files), set(io._dirs)


def test_without_a_fault_it_counts():
    """Every changing call is one step, known by its name and path; reading is none."""
    io = FaultyFileIO(MemoryFileIO())
    run_all(io)
    list(io.list_dir("/"))
    assert io.stat("/f") is None
    assert io.steps == [f"{name} {arguments[0]}" for name, arguments in CALLS]


@pytest.mark.parametrize("step", range(len(CALLS)))
@pytest.mark.parametrize("moment", list(Moment))
def test_the_step_happens_or_does_not(step, moment):
    """A fault before a step leaves the store as it was before; one after it, as if all were well."""
    plain = MemoryFileIO()
    for name, arguments in CALLS[: step + (moment is Moment.AFTER)]:
        getattr(plain, name)(*arguments)
    inner = MemoryFileIO()
    with pytest.raises(OSError, match=f"injected fail at step {step}"):
        run_all(FaultyFileIO(inner, fault=Fault(step=step, action=Action.FAIL, moment=moment)))
    assert state(inner) == state(plain)


@pytest.mark.parametrize("step", [1, 2])
def test_a_torn_write_leaves_half_under_another_name(step):
    """Tearing never leaves a short file under the name that was to be written."""
    inner = MemoryFileIO()
    with pytest.raises(OSError, match="injected tear"):
        run_all(FaultyFileIO(inner, fault=Fault(step=step, action=Action.TEAR)))
    path = CALLS[step][1][0]
    assert inner.stat(path) is None
    assert inner.read_bytes(f"{path}.torn") == b"1234"


def test_a_killed_process_runs_no_handler(children, lake):
    """KILL is a real signal: the process is gone, without an answer."""
    lake.parquet("dt=1")
    killed = {"step": 0, "action": "kill", "moment": "before"}
    assert children.run("compact", path=str(lake.table), fault=killed) == {"status": -9}


@pytest.mark.parametrize(("step", "halves"), [("replace", 1), ("make_dirs", 0)])
def test_a_kill_inside_a_write_leaves_half_of_it(children, lake, step, halves):
    """KILL_INSIDE leaves half of the bytes beside the file, under a name of the store's own; other steps nothing."""
    steps = children.run("compact", path=str(lake.parquet("dt=1")))["steps"]
    last = max(at for at, name in enumerate(steps) if name.startswith(step))
    killed = {"step": last, "action": "kill-inside", "moment": "before"}
    assert children.run("compact", path=str(lake.parquet("dt=2")), fault=killed) == {"status": -9}
    assert len([path for path in lake.root.rglob(".new-*") if path.stat().st_size]) == halves
