"""The crash matrix for every format: killed at the steps of a swap, its recovery, its undoing; no row is lost.

``test_swap_crashes.py`` takes every step with Parquet. A swap moves files and does not look into them, so the short
form takes few steps with the formats that are copied, all in one table; the long form takes every step with each.
"""

import shutil

import pytest
from format_files import FORMATS

from packstone.pipeline.table import Table
from packstone.tables.hive.options import HiveOptions

COPIED = ("avro", "sequencefile", "rcfile")
MERGE = {"min_files": 2}
IDS = list(range(40))
KILLED = -9


class Scene:
    """A table with a partition for each format, which can be set back to how it was at the same path."""

    def __init__(self, root, formats):
        self.root, self.formats = root / "lake", formats
        self.table, self.aside = self.root / "orders", root / "aside"
        for name in formats:
            ending, write, _ = FORMATS[name]
            folder = self.table / f"f={name}"
            folder.mkdir(parents=True)
            for at in range(4):
                (folder / f"part-{at}.{ending}").write_bytes(write(IDS[at * 10 : at * 10 + 10]))
        self.before = self.content()
        self.save("start")

    def open(self):
        """Open the table."""
        return Table(str(self.table))

    def save(self, name):
        """Remember the present state."""
        shutil.copytree(self.root, self.aside / name)

    def set_back(self, name):
        """Put a remembered state back."""
        shutil.rmtree(self.root)
        shutil.copytree(self.aside / name, self.root)

    def content(self):
        """The bytes of all visible files."""
        return {path.relative_to(self.table): path.read_bytes() for path in self.table.rglob("*") if path.is_file()}

    def check_rows(self, where):
        """Every row is there once, by readers that are not ours."""
        for name in self.formats:
            read = FORMATS[name][2]
            found = (read(data) for path, data in self.content().items() if path.parts[0] == f"f={name}")
            assert sorted(number for ids in found for number in ids) == IDS, (where, name)

    def check_mended(self, where):
        """After recovery: every row once, nothing staged, nothing pending."""
        self.open().recover()
        self.check_rows(where)
        assert not [path for path in (self.root / ".packstone/orders/staging").rglob("*") if path.is_file()], where
        assert self.open().recover().to_json()["status"] == "nothing-to-do", where

    def check_usable(self, where):
        """It can be merged again, proved, and undone: then the originals are there, byte for byte."""
        table = self.open()
        outcome = table.compact(HiveOptions(**MERGE))
        assert outcome.status in ("committed", "nothing-to-do"), (where, outcome.skipped)
        assert len(self.content()) == len(self.formats), where
        self.check_rows(where)
        if outcome.run is not None:
            assert table.verify(outcome.run).to_json()["status"] == "verified", where
        infos = [table.open().journal.runs.read_info(run) for run in table.open().journal.list_runs()]
        for info in sorted((info for info in infos if info is not None), key=lambda info: info.started_at)[::-1]:
            table.restore(info.run)
        assert self.content() == self.before, where


def fault(step, moment):
    """A fault as the child takes it."""
    return {"step": step, "action": "kill", "moment": moment}


def kill_at(scene, children, call, *, start="start", moment="after", wanted=lambda _: True, **arguments):
    """Kill a call at every wanted step, from the same start each time, and see what recovery makes of it."""
    scene.set_back(start)
    steps = children.run(call, path=str(scene.table), **arguments)["steps"]
    killed = 0
    for step, name in enumerate(steps):
        if not wanted(name):
            continue
        scene.set_back(start)
        where = f"{call} killed {moment} step {step}: {name}"
        done = children.run(call, path=str(scene.table), fault=fault(step, moment), **arguments)
        assert done["status"] == KILLED, where
        scene.check_mended(where)
        if call != "clean":  # then there are no originals to undo it with
            scene.check_usable(where)
        killed += 1
    return killed


def is_of_swap(name):
    """Whether a step moves data or marks a swap."""
    return name.startswith("move") or any(fact in name for fact in ("intent.json", "done.json", "marks.json"))


@pytest.mark.slow
def test_copied_formats_killed_in_their_swaps(tmp_path, children):
    """Avro, SequenceFile and RCFile in one table: killed after any move or mark, all rows are there, once."""
    scene = Scene(tmp_path, COPIED)
    assert kill_at(scene, children, "compact", wanted=is_of_swap, **MERGE) >= 7 * len(COPIED)


def test_every_format_killed_in_its_swap(tmp_path, children):
    """Every format that is merged, in one table: killed in the middle of each swap, repaired, merged and undone."""
    scene = Scene(tmp_path, tuple(FORMATS))
    second = kill_at(scene, children, "compact", wanted=lambda name: "move" in name and "/part-1." in name, **MERGE)
    assert second == len(FORMATS)


@pytest.mark.slow
def test_copied_formats_killed_while_undone(tmp_path, children):
    """A restore that is killed after any move is finished by recovery, and the originals come back."""
    scene = Scene(tmp_path, COPIED[:1])
    run = scene.open().compact(HiveOptions(**MERGE)).run
    scene.save("merged")
    assert kill_at(scene, children, "restore", start="merged", wanted=is_of_swap, run=run) >= 5


@pytest.mark.soak
@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("file_format", FORMATS)
def test_every_format_killed_at_every_step(tmp_path, children, file_format, moment):
    """The full matrix: compact, recover, restore and clean, every step, every format."""
    scene = Scene(tmp_path, (file_format,))
    assert kill_at(scene, children, "compact", moment=moment, **MERGE) > 20
    scene.set_back("start")
    steps = children.run("compact", path=str(scene.table), **MERGE)["steps"]
    scene.set_back("start")
    middle = [at for at, name in enumerate(steps) if name.startswith("move")][1]
    children.run("compact", path=str(scene.table), fault=fault(middle, "after"), **MERGE)
    scene.save("crashed")
    kill_at(scene, children, "recover", start="crashed", moment=moment)
    scene.set_back("start")
    run = scene.open().compact(HiveOptions(**MERGE, keep_days=0)).run
    scene.save("merged")
    kill_at(scene, children, "restore", start="merged", moment=moment, run=run)
    kill_at(scene, children, "clean", start="merged", moment=moment)
