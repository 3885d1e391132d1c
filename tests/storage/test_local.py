"""Local files: exclusive between processes, whole after a kill, and with the rights that the kernel gives."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from patience import patient

from packstone.errors import CorruptionError
from packstone.model.files import Permissions
from packstone.storage.fileio import INCOMPLETE_NAME, MAX_WHOLE_BYTES, EntryKind
from packstone.storage.local import LocalFileIO

NOBODY = 65_534


@pytest.fixture
def open_to_all(tmp_path):
    """A folder that other users reach; pytest's own is for its user alone."""
    folder = tmp_path / "shared"
    folder.mkdir()
    for above in (tmp_path, *tmp_path.parents):
        if above.stat().st_uid != os.getuid() or above.name.startswith("tmp"):
            break
        above.chmod(0o755)
    return folder


@pytest.mark.parametrize("method", ["write_new", "replace"])
def test_what_a_kill_inside_a_write_leaves_has_a_known_name(tmp_path, method):
    """A real signal in the middle of a write (SIGXFSZ, at a size limit): a cleanup recognises the half by its name."""
    program = """
import resource, signal, sys
from packstone.storage.local import LocalFileIO
signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
getattr(LocalFileIO(), sys.argv[1])(sys.argv[2], bytes(3000))
"""
    done = subprocess.run(
        [sys.executable, "-c", program, method, tmp_path / "record"], check=False, timeout=patient(60)
    )
    assert done.returncode == -signal.SIGXFSZ
    (half,) = tmp_path.iterdir()
    assert (half.stat().st_size, bool(INCOMPLETE_NAME.fullmatch(half.name))) == (1000, True)


def test_of_many_processes_exactly_one_writes(children, tmp_path):
    """Sixteen processes create the same name at the same moment, a hundred times: one wins, its content is whole."""
    paths = [tmp_path / f"{number:03d}" for number in range(100)]
    start = time.monotonic() + 0.5
    pids = [children.start("write_new_each", paths=paths, start=start, interval=0.01) for _ in range(16)]
    answers = {pid: children.wait(pid)["value"] for pid in pids}
    won = sorted(path for paths_won in answers.values() for path in paths_won)
    assert won == [str(path) for path in paths]
    for pid, paths_won in answers.items():
        assert all(Path(path).read_bytes() == f"{pid}".encode() * 10_000 for path in paths_won)
    assert sorted(tmp_path.iterdir()) == paths


def test_a_reader_sees_the_old_content_or_the_new(tmp_path):
    """Replace is whole: a reader that looks all the time never meets half a record or none."""
    io, path = LocalFileIO(), str(tmp_path / "record")
    io.replace(path, b"0" * 50_000)
    over = threading.Event()

    def write():
        for digit in b"123456789" * 10:
            io.replace(path, bytes([digit]) * 50_000)
        over.set()

    writer = threading.Thread(target=write)
    writer.start()
    while not over.is_set():
        content = io.read_bytes(path)
        assert len(content) == 50_000
        assert len(set(content)) == 1
    writer.join()


def test_killed_between_link_and_unlink(children, tmp_path):
    """A move by two steps that is killed between them leaves two names of one file; any later move repairs it."""
    io = LocalFileIO()
    for number, repaired in enumerate(("the same way", "by rename")):
        source, target = str(tmp_path / f"a{number}"), str(tmp_path / f"b{number}")
        io.replace(source, b"rows")
        assert children.run("move_by_link", source=source, target=target, die=True)["status"] == -9
        assert Path(source).samefile(target)
        if repaired == "the same way":
            children.run("move_by_link", source=source, target=target, die=False)
        else:
            io.move(source, target)
        assert (io.stat(source), io.read_bytes(target)) == (None, b"rows")


def test_a_second_name_of_other_content_is_not_a_half_move(tmp_path):
    """Equal size and time are not enough to take two files for one: the move fails and both stay."""
    io = LocalFileIO()
    for name in "ab":
        (tmp_path / name).write_bytes(name.encode())
        os.utime(tmp_path / name, ns=(0, 0))
    with pytest.raises(FileExistsError):
        io.move(str(tmp_path / "a"), str(tmp_path / "b"))
    assert sorted(path.read_bytes() for path in tmp_path.iterdir()) == [b"a", b"b"]


def test_links_are_named_not_followed(tmp_path):
    """A symbolic link is a link, in a listing and in stat, also if it leads nowhere; moving moves the link."""
    io = LocalFileIO()
    (tmp_path / "file").write_bytes(b"rows")
    (tmp_path / "good").symlink_to("file")
    (tmp_path / "bad").symlink_to("nowhere")
    assert {e.name: e.kind for e in io.list_dir(str(tmp_path))}["good"] is EntryKind.LINK
    assert io.stat(str(tmp_path / "bad")).kind is EntryKind.LINK
    io.move(str(tmp_path / "good"), str(tmp_path / "moved"))
    assert (tmp_path / "moved").is_symlink()
    with pytest.raises(FileExistsError):
        io.move(str(tmp_path / "file"), str(tmp_path / "bad"))


def test_folders_vanish_while_they_are_made(tmp_path):
    """Another run that removes empty folders at its end does not make ours fail."""
    io, over = LocalFileIO(), threading.Event()

    def remove():
        while not over.is_set():
            for folder in ("s/runs", "s"):
                io.remove_empty_dir(str(tmp_path / folder))
            time.sleep(0.002)

    remover = threading.Thread(target=remove)
    remover.start()
    try:
        for number in range(300):
            io.make_dirs(str(tmp_path / "s" / "runs" / f"{number}"))
            shutil.rmtree(tmp_path / "s" / "runs" / f"{number}")
    finally:
        over.set()
        remover.join()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_rights_are_the_kernels(children, open_to_all):
    """Without the right to write a folder, may_write says no, and writing is a PermissionError."""
    io = LocalFileIO()
    assert io.may_write(str(open_to_all))
    open_to_all.chmod(0o755)
    done = children.run("write_new_each", uid=NOBODY, paths=[str(open_to_all / "a")], start=0, interval=0)
    assert "PermissionError" in done["message"]
    assert list(open_to_all.iterdir()) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_owner_group_and_mode_are_set(tmp_path):
    """All three are set, and setting an unchanged value needs no rights."""
    io, path = LocalFileIO(), str(tmp_path / "a")
    io.replace(path, b"")
    wanted = Permissions(uid=NOBODY, gid=NOBODY, mode=0o640)
    io.set_permissions(path, wanted)
    io.set_permissions(path, wanted)
    assert io.stat(path).permissions == wanted


@pytest.mark.parametrize(("folder", "file"), [(0o755, 0o644), (0o750, 0o640), (0o700, 0o600), (0o777, 0o644)])
def test_a_new_file_is_as_open_as_its_folder(tmp_path, folder, file):
    """Whoever may enter the folder may read records and data files; only their owner writes them."""
    io = LocalFileIO()
    tmp_path.chmod(folder)
    io.write_new(str(tmp_path / "a"), b"")
    io.replace(str(tmp_path / "b"), b"")
    io.open_output(str(tmp_path / "c")).close()
    assert {io.stat(str(tmp_path / name)).permissions.mode for name in "abc"} == {file}
    io.limited(0o600).open_output(str(tmp_path / "d")).close()
    assert io.stat(str(tmp_path / "d")).permissions.mode == 0o600


@pytest.mark.parametrize("above", [0o755, 0o750, 0o700])
@pytest.mark.parametrize("like", [None, 0o755, 0o750, 0o700, 0o500])
def test_a_new_folder_is_never_more_open(tmp_path, above, like):
    """Neither than the one above it nor than what it is made for; its owner may always use it."""
    tmp_path.chmod(above)
    limit = None if like is None else Permissions(mode=like)
    LocalFileIO().make_dirs(str(tmp_path / "a" / "b"), like=limit)
    for made in (tmp_path / "a", tmp_path / "a" / "b"):
        assert made.stat().st_mode & 0o777 == (above & (0o777 if like is None else like)) | 0o700


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make folders of other groups")
def test_the_group_is_that_of_the_table_or_nobody(tmp_path, children, open_to_all):
    """A mode for a group is for the table's group; who may not give a folder to it gives the group nothing."""
    limit = Permissions(gid=NOBODY, mode=0o750)
    LocalFileIO().make_dirs(str(tmp_path / "a"), like=limit)
    made = (tmp_path / "a").stat()
    assert (made.st_gid, made.st_mode & 0o777) == (NOBODY, 0o750)
    open_to_all.chmod(0o777)
    done = children.run("make_dirs_like", uid=NOBODY, path=str(open_to_all / "b"), gid=4, mode=0o750)
    assert "error" not in done, done["message"]
    made = (open_to_all / "b").stat()
    assert (made.st_gid, made.st_mode & 0o777) != (4, 0o750)
    assert made.st_mode & 0o070 == 0


@pytest.mark.parametrize("kind", ["pipe", "folder", "socket", "/dev/zero", "/dev/tty", "huge"])
def test_what_cannot_be_read_whole(tmp_path, kind):
    """Whatever is not a file of some size is an error at once, with its path, and no handle stays open."""
    path, server = tmp_path / "record.json", None
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    elif kind == "socket":
        server = socket.socket(socket.AF_UNIX)
        server.bind(str(path))
    elif kind == "huge":
        with path.open("wb") as file:
            file.truncate(MAX_WHOLE_BYTES + 1)
    else:
        path.symlink_to(kind)
    handles = len(os.listdir("/proc/self/fd"))  # noqa: PTH208 - counted, not named
    with pytest.raises(CorruptionError, match=r"record\.json (should be a file, but is a|is larger than 256 MB)"):
        LocalFileIO().read_bytes(str(path))
    assert len(os.listdir("/proc/self/fd")) == handles  # noqa: PTH208
    if server is not None:
        server.close()


def test_a_link_to_a_file_is_followed(tmp_path):
    """Somebody may keep a record elsewhere."""
    (tmp_path / "real").write_bytes(b"content")
    (tmp_path / "link").symlink_to("real")
    assert LocalFileIO().read_bytes(str(tmp_path / "link")) == b"content"
