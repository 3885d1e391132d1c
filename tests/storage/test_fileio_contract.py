"""One contract for every store: what the protocols above rely on holds for each implementation alike.

Two things differ, and a store says so: one without folders (S3) has them only while something is in them, and one
without rename moves by copying, which takes a new time.
"""

import os
import pickle
from dataclasses import replace

import pytest

from packstone.model.files import Permissions
from packstone.storage.faulty import FaultyFileIO
from packstone.storage.fileio import EntryKind
from packstone.storage.hdfs import HdfsFileIO
from packstone.storage.hdfs_connection import HdfsSettings
from packstone.storage.local import LocalFileIO
from packstone.storage.memory import MemoryFileIO
from packstone.storage.s3 import S3FileIO, S3Settings


@pytest.fixture(params=["local", "local by link", "memory", "faulty local", "faulty memory", "seaweed", "moto", "hdfs"])
def store(request, tmp_path, monkeypatch, use_s3):
    """Each store, with a folder in it to work in."""
    if request.param in ("seaweed", "moto"):
        folder = use_s3(request.getfixturevalue(request.param)) + "/a b%3Ac=1/work"
        return S3FileIO(S3Settings.from_environment(os.environ)), folder
    if request.param == "hdfs":
        folder = request.getfixturevalue("use_hdfs") + "/a b%3Ac=1/work"
        io = HdfsFileIO(HdfsSettings.from_environment(folder, os.environ))
        io.make_dirs(folder)
        return io, folder
    io = MemoryFileIO() if "memory" in request.param else LocalFileIO()
    if "by link" in request.param:
        monkeypatch.setattr("packstone.storage.local._rename_noreplace", lambda *_: 38)  # ENOSYS: an older kernel
    io = FaultyFileIO(io) if "faulty" in request.param else io
    folder = str(tmp_path / "work")
    io.make_dirs(folder)
    return io, folder


def names(io, folder):
    """The names in a folder; where there are no folders, one with nothing in it is not there.

    SeaweedFS lists an emptied one for a while yet; that nothing is in it is what counts.
    """
    if io.capabilities.has_folders:
        return sorted(entry.name for entry in io.list_dir(folder))
    there = list(io.list_dir(folder)) if io.stat(folder) is not None else []
    return sorted(entry.name for entry in there if io.stat(f"{folder}/{entry.name}") is not None)


def test_written_bytes_are_read_back(store):
    """write_new, replace and open_output give back exactly what they were given."""
    io, folder = store
    io.write_new(f"{folder}/a", b"one")
    io.replace(f"{folder}/b", b"")
    with io.open_output(f"{folder}/c") as file:
        file.write(b"three")
    assert [io.read_bytes(f"{folder}/{name}") for name in "abc"] == [b"one", b"", b"three"]
    with io.open_input(f"{folder}/c") as file:
        assert file.read() == b"three"
    assert names(io, folder) == ["a", "b", "c"]


def test_write_new_never_replaces(store):
    """The second write_new of a name fails, the first one's content stays, and nothing else is left behind."""
    io, folder = store
    io.write_new(f"{folder}/a", b"first")
    with pytest.raises(FileExistsError):
        io.write_new(f"{folder}/a", b"second")
    assert io.read_bytes(f"{folder}/a") == b"first"
    assert names(io, folder) == ["a"]


def test_replace_replaces(store):
    """Replace puts new content over old, and leaves no other name."""
    io, folder = store
    io.replace(f"{folder}/a", b"old")
    io.replace(f"{folder}/a", b"new")
    assert io.read_bytes(f"{folder}/a") == b"new"
    assert names(io, folder) == ["a"]


@pytest.mark.parametrize("write", ["write_new", "replace"])
def test_writing_needs_the_folder(store, write):
    """A write into a folder that is gone fails: a run whose folder was removed cannot go on journalling."""
    io, folder = store
    if not io.capabilities.has_folders:
        getattr(io, write)(f"{folder}/gone/a", b"")
        assert names(io, folder) == ["gone"]
        return
    with pytest.raises(FileNotFoundError):
        getattr(io, write)(f"{folder}/gone/a", b"")


def test_move_keeps_bytes_and_time(store):
    """A moved file has the same size, time and bytes under its new name only."""
    io, folder = store
    io.replace(f"{folder}/a", b"rows")
    before = io.stat(f"{folder}/a")
    io.make_dirs(f"{folder}/b")
    io.move(f"{folder}/a", f"{folder}/b/c")
    after = io.stat(f"{folder}/b/c")
    assert io.stat(f"{folder}/a") is None
    assert (after.name, after.size_bytes) == ("c", before.size_bytes)
    assert after.mtime_ns == before.mtime_ns or not io.capabilities.atomic_rename
    assert io.read_bytes(f"{folder}/b/c") == b"rows"


def test_move_never_replaces(store):
    """A move onto an existing name fails, and both files stay as they were."""
    io, folder = store
    io.replace(f"{folder}/a", b"one")
    io.replace(f"{folder}/b", b"two")
    with pytest.raises(FileExistsError):
        io.move(f"{folder}/a", f"{folder}/b")
    assert (io.read_bytes(f"{folder}/a"), io.read_bytes(f"{folder}/b")) == (b"one", b"two")


def test_a_move_onto_itself_fails_and_loses_nothing(store):
    """A name moved to itself exists already; the file is still there afterwards."""
    io, folder = store
    io.replace(f"{folder}/a", b"one")
    with pytest.raises(FileExistsError):
        io.move(f"{folder}/a", f"{folder}/a")
    assert io.read_bytes(f"{folder}/a") == b"one"


def test_move_of_nothing_and_to_nowhere(store):
    """A source that is gone and a target folder that is gone are FileNotFoundError; the source stays."""
    io, folder = store
    io.replace(f"{folder}/a", b"one")
    with pytest.raises(FileNotFoundError):
        io.move(f"{folder}/gone", f"{folder}/b")
    assert names(io, folder) == ["a"]
    if not io.capabilities.has_folders:
        return
    with pytest.raises(FileNotFoundError):
        io.move(f"{folder}/a", f"{folder}/gone/b")
    assert names(io, folder) == ["a"]


def test_removing_what_is_not_there_is_fine(store):
    """Remove, remove_tree and remove_empty_dir may be repeated after a crash."""
    io, folder = store
    io.remove(f"{folder}/gone")
    io.remove_tree(f"{folder}/gone")
    assert io.remove_empty_dir(f"{folder}/gone")
    assert names(io, folder) == []


def test_remove_empty_dir_keeps_what_is_not_empty(store):
    """A folder with something in it stays, and the answer says so."""
    io, folder = store
    io.make_dirs(f"{folder}/full")
    io.make_dirs(f"{folder}/empty")
    io.replace(f"{folder}/full/a", b"")
    assert (io.remove_empty_dir(f"{folder}/full"), io.remove_empty_dir(f"{folder}/empty")) == (False, True)
    assert names(io, folder) == ["full"]


def test_remove_tree_takes_only_what_is_below(store):
    """A sibling whose name begins alike stays."""
    io, folder = store
    for name in ("run", "run-2"):
        io.make_dirs(f"{folder}/{name}/deep")
        io.replace(f"{folder}/{name}/deep/a", b"")
    io.remove_tree(f"{folder}/run")
    assert names(io, folder) == ["run-2"]
    assert io.stat(f"{folder}/run-2/deep/a") is not None


def test_listing_and_stat_agree(store):
    """Every entry of a listing is what stat says of it; a missing path is None, a missing folder an error."""
    io, folder = store
    io.replace(f"{folder}/a", b"12345")
    io.make_dirs(f"{folder}/d/e")
    io.replace(f"{folder}/d/e/f", b"")
    entries = {entry.name: entry for entry in io.list_dir(folder)}
    assert {name: entry.kind for name, entry in entries.items()} == {"a": EntryKind.FILE, "d": EntryKind.DIRECTORY}
    assert entries["a"] == io.stat(f"{folder}/a")
    assert entries["a"].size_bytes == 5
    assert io.stat(f"{folder}/gone") is None
    assert io.stat(f"{folder}/a/below-a-file") is None
    with pytest.raises(FileNotFoundError):
        list(io.list_dir(f"{folder}/gone"))
    with pytest.raises(FileNotFoundError):
        io.read_bytes(f"{folder}/gone")


def test_make_dirs_may_be_repeated(store):
    """make_dirs makes all ancestors, and once more is fine."""
    io, folder = store
    for _ in range(2):
        io.make_dirs(f"{folder}/x/y/z")
    io.replace(f"{folder}/x/y/z/a", b"")
    assert io.stat(f"{folder}/x/y/z").kind is EntryKind.DIRECTORY


def test_permissions_are_set(store):
    """Owner, group and mode of a file become those requested; objects have none, and say so."""
    io, folder = store
    io.replace(f"{folder}/a", b"")
    mine = io.stat(f"{folder}/a").permissions
    if isinstance(io, S3FileIO):
        io.set_permissions(f"{folder}/a", mine)
        with pytest.raises(PermissionError):
            io.set_permissions(f"{folder}/a", Permissions(uid=mine.uid, gid=mine.gid, mode=0o600))
        return
    wanted = replace(mine, mode=0o600)
    io.set_permissions(f"{folder}/a", wanted)
    assert io.stat(f"{folder}/a").permissions == wanted


def test_syncs_space_and_store(store):
    """Syncing changes nothing, there is space, and one folder is one store."""
    io, folder = store
    io.replace(f"{folder}/a", b"x")
    io.sync_file(f"{folder}/a")
    io.sync_dir(folder)
    assert io.free_bytes(f"{folder}/not/yet/there") > 0
    assert io.store_id(folder) == io.store_id(f"{folder}/not/yet/there")
    assert io.may_write(folder)
    assert io.capabilities.create_if_absent


def test_a_store_travels(store):
    """A store that was pickled and read again works on the same files; memory stays where it is."""
    io, folder = store
    if isinstance(io, MemoryFileIO | FaultyFileIO):
        return
    io.replace(f"{folder}/a", b"x")
    assert pickle.loads(pickle.dumps(io)).read_bytes(f"{folder}/a") == b"x"  # noqa: S301 - our own
