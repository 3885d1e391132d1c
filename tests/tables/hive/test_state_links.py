"""A swap that cannot be finished leaves the rows where readers find them: it is refused before, or undone at once."""

import shutil

import pytest

from packstone.errors import RefusedError
from packstone.pipeline.table import Table
from packstone.storage.local import LocalFileIO
from packstone.tables.hive.options import HiveOptions

OPTIONS = HiveOptions(min_files=3)
OWN_FOLDERS = ("runs", "staging", "backup", "owners", "versions", "deaths", "unrecorded")


@pytest.fixture
def state(lake):
    """The state folder of a table with one partition of six files."""
    lake.parquet("dt=1")
    return lake.root / ".packstone" / "orders"


@pytest.mark.parametrize("kind", ["link", "dangling link", "file"])
@pytest.mark.parametrize("name", OWN_FOLDERS)
def test_what_is_not_a_folder_is_refused_first(lake, state, tree, name, kind):
    """A link or a file in the place of a folder of ours stops a run before it changes anything, here or there."""
    state.mkdir(parents=True)
    outside = lake.root.parent / "outside"
    outside.mkdir()
    if kind == "file":
        (state / name).write_bytes(b"")
    else:
        (state / name).symlink_to(outside if kind == "link" else outside / "nowhere")
    before = tree(lake.table)
    with pytest.raises(RefusedError, match=rf"orders/{name} is a (link|file) and not a folder; nothing was changed"):
        Table(str(lake.table)).compact(OPTIONS)
    assert (tree(lake.table), list(outside.iterdir())) == (before, [])
    assert [path.name for path in state.iterdir()] == [name]


def test_the_command_answers_3(lake, state, packstone):
    """It is one sentence with the path."""
    state.mkdir(parents=True)
    (state / "backup").symlink_to(lake.root)
    done = packstone("compact", lake.table)
    assert (done.code, done.err.count("\n")) == (3, 1)
    assert f"{state}/backup is a link" in done.err


class Exchanging(LocalFileIO):
    """Exchanges a folder for a link to it: just before, or just after, the first original has moved."""

    def __init__(self, folder, moment):
        self.folder, self.moment = folder, moment

    def move(self, source, target):
        """Move, and exchange."""
        if self.moment == "before":
            self.exchange()
        super().move(source, target)
        self.exchange()

    def exchange(self):
        """Once."""
        if not self.folder.is_symlink():
            aside = self.folder.parent.parent / f"{self.folder.name}-aside"
            shutil.move(self.folder, aside)
            self.folder.symlink_to(aside)


@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("name", ["staging", "backup"])
def test_a_folder_exchanged_during_the_swap(lake, state, tree, name, moment):
    """What had moved goes back at once: readers see every row, and no swap is left half-way."""
    before = tree(lake.table)
    outcome = Table(str(lake.table), io=Exchanging(state / name, moment)).compact(OPTIONS)
    assert f"{state}/{name} is a link" in outcome.skipped[-1].why
    assert outcome.units == ()
    assert tree(lake.table) == before
    (state / name).unlink()
    assert Table(str(lake.table)).recover().to_json()["status"] == "nothing-to-do"
    assert Table(str(lake.table)).compact(OPTIONS).status == "committed"


class ExchangingForOthers(Exchanging):
    """Exchanges the backup for a folder with other files of the same names."""

    def exchange(self):
        """Once, after the fifth original."""
        moved = [path for path in self.folder.rglob("*.kept") if not self.folder.is_symlink()]
        if len(moved) == 6:
            aside = self.folder.parent.parent / "aside"
            shutil.copytree(self.folder, aside / "others")
            shutil.move(self.folder, aside / "real")
            for path in (aside / "others").rglob("*.kept"):
                path.write_bytes(b"not an original")
            self.folder.symlink_to(aside / "others")


def test_files_of_others_do_not_come_back_as_originals(lake, state):
    """If a link shows other files in place of the originals, they stay out; with the folder back all is finished."""
    before = lake.ids()
    outcome = Table(str(lake.table), io=ExchangingForOthers(state / "backup", "after")).compact(OPTIONS)
    assert outcome.status == "failed"
    assert not list(lake.table.rglob("*.parquet"))
    (state / "backup").unlink()
    shutil.move(lake.root / ".packstone" / "aside" / "real", state / "backup")
    Table(str(lake.table)).recover()
    assert lake.ids() == before


class Refusing(LocalFileIO):
    """Refuses to move one original, for ever: as a folder with the sticky bit or another encryption zone does."""

    def move(self, source, target):
        """Move, unless it is that file."""
        if source.endswith("part-00003.parquet"):
            raise PermissionError(1, "Operation not permitted", source)
        super().move(source, target)


def test_a_move_that_is_refused_undoes_the_swap(lake, state, tree):
    """Rows do not wait for ``recover`` in a backup: the originals are back when the run ends, with the reason."""
    before = tree(lake.table)
    outcome = Table(str(lake.table), io=Refusing()).compact(OPTIONS)
    assert "failed and was undone: The storage failed: Operation not permitted" in outcome.skipped[-1].why
    assert tree(lake.table) == before
    assert not list(state.rglob("*.kept"))
    assert Table(str(lake.table)).recover().to_json()["status"] == "nothing-to-do"


def test_recover_goes_back_where_it_cannot_go_forward(lake, state, tree, children, tmp_path):
    """A killed swap whose moves the storage refuses is undone, instead of failing at each recovery."""
    before = tree(lake.table)
    shutil.copytree(lake.root, tmp_path / "copy")
    steps = children.run("compact", path=str(lake.table), min_files=3)["steps"]
    shutil.rmtree(lake.root)
    shutil.move(tmp_path / "copy", lake.root)
    step = [at for at, text in enumerate(steps) if text.startswith("move ")][1]
    fault = {"step": step, "action": "kill", "moment": "after"}
    assert children.run("compact", path=str(lake.table), min_files=3, fault=fault)["status"] == -9
    assert len(list(state.rglob("*.kept"))) == 2
    report = Table(str(lake.table), io=Refusing()).recover()
    assert "swap undone" in report.actions[0]
    assert tree(lake.table) == before
