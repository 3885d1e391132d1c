"""S3: exclusive between processes, whole after a kill, sure of its own puts, on stores that keep their promise."""

import os
import random
import subprocess
import sys
import textwrap
import time
from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from patience import patient
from s3_servers import Fault, FaultyProxy

from packstone.errors import InvalidInputError, RefusedError
from packstone.storage import store_checks as exclusive
from packstone.storage.fileio import EntryKind, abandon_output
from packstone.storage.memory import MemoryFileIO
from packstone.storage.s3 import S3FileIO, S3Settings
from packstone.storage.store_checks import check_exclusive

MEGABYTE = 1 << 20


@pytest.fixture
def s3(seaweed, use_s3):
    """The real server, and a folder on it."""
    folder = use_s3(seaweed)
    return S3FileIO(S3Settings.from_environment(os.environ)), folder


@pytest.fixture
def broken(moto, use_s3):
    """A server behind a proxy with faults: gives the store, a folder, and the proxy."""
    proxy = FaultyProxy(moto)
    with proxy as server:
        folder = use_s3(server)
        yield S3FileIO(S3Settings.from_environment(os.environ)), folder, proxy


def test_of_many_processes_exactly_one_creates(children, s3, seaweed):
    """Six processes create the same names at the same moments: each has one winner, whose content is there."""
    io, folder = s3
    paths = [f"{folder}/{number}" for number in range(4)]
    start = time.monotonic() + 0.5
    calls = {"paths": paths, "start": start, "interval": 0.2, "env": seaweed.env}
    pids = [children.start("write_new_each", **calls) for _ in range(6)]
    answers = {pid: children.wait(pid)["value"] for pid in pids}
    assert sorted(path for won in answers.values() for path in won) == paths
    for pid, won in answers.items():
        assert all(io.read_bytes(path) == f"{pid}".encode() * 10_000 for path in won)


@pytest.mark.parametrize("how", ["hide", "cut"])
def test_a_put_whose_answer_was_lost_is_not_a_rival_of_itself(broken, how):
    """The server did it and the answer was lost: whoever repeats it has created it, and nobody else has."""
    io, folder, proxy = broken
    proxy.faults.append(Fault("PUT", "/a", how))
    io.write_new(f"{folder}/a", b"same")
    assert proxy.faults[0].seen == 1
    with pytest.raises(FileExistsError):
        io.write_new(f"{folder}/a", b"same")
    assert io.read_bytes(f"{folder}/a") == b"same"


@pytest.mark.parametrize(("method", "call"), [("PUT", "write_new"), ("PUT", "replace"), ("GET", "read_bytes")])
def test_a_store_that_is_busy_is_asked_again(broken, method, call):
    """503 SlowDown, several times over, is not an error."""
    io, folder, proxy = broken
    if call == "read_bytes":
        io.replace(f"{folder}/a", b"x")
    proxy.faults.append(Fault(method, "/a", "refuse", times=3))
    getattr(io, call)(*((f"{folder}/a",) if call == "read_bytes" else (f"{folder}/a", b"x")))
    assert proxy.faults[0].seen == 3
    assert io.read_bytes(f"{folder}/a") == b"x"


def test_errors_are_those_of_files(s3):
    """A missing bucket, a wrong key and a server that is not there are OSErrors with a number and the path."""
    io, folder = s3
    with pytest.raises(FileNotFoundError) as missing:
        io.read_bytes("s3://no-such-bucket/a")
    assert (missing.value.errno, missing.value.filename) == (2, "s3://no-such-bucket/a")
    assert io.stat("s3://no-such-bucket") is None
    stranger = S3FileIO(replace(io.settings, secret="wrong"))  # noqa: S106 - it is wrong
    with pytest.raises(PermissionError) as refused:
        stranger.replace(f"{folder}/a", b"")
    assert "wrong" not in str(refused.value)
    for name in ("a//b", "../b"):
        with pytest.raises(OSError, match="does not accept this name"):
            io.replace(f"{folder}/{name}", b"")
    nobody = S3FileIO(S3Settings(endpoint="http://127.0.0.1:9", region="us-east-1"))
    with pytest.raises(OSError, match=r"No S3 server answers at http://127\.0\.0\.1:9;") as gone:
        nobody.read_bytes(f"{folder}/a")
    assert "\n" not in str(gone.value)


def test_above_the_buckets_there_is_nothing(s3):
    """The way up from a path ends: a bucket is a folder, and what is above it is not there."""
    io, _ = s3
    assert io.stat("s3://lake").kind is EntryKind.DIRECTORY
    assert [io.stat(path) for path in ("s3://", "s3:/", "s3:", "")] == [None] * 4
    with pytest.raises(InvalidInputError, match="whole bucket"):
        io.remove_tree("s3://lake")


def test_a_killed_upload_shows_nothing(children, s3, seaweed):
    """Neither a small file nor one of several parts is there if the process died before the end."""
    io, folder = s3
    io.replace(f"{folder}/other", b"")
    for megabytes in (1, 30):
        assert children.run("upload_and_die", path=f"{folder}/a", megabytes=megabytes, env=seaweed.env)["status"] == -9
        assert [entry.name for entry in io.list_dir(folder)] == ["other"]


@pytest.mark.parametrize("way", ["with", "abandon", "forget"])
def test_an_upload_that_is_given_up_is_aborted(broken, way):
    """A failed block, an abandoned file and a forgotten one tell the store to drop the parts, and show nothing."""
    io, folder, proxy = broken
    file = io.open_output(f"{folder}/a")
    file.write(bytes(20 * MEGABYTE))
    if way == "with":
        with pytest.raises(ZeroDivisionError), file:
            file.write(bytes(1 // 0))
    if way == "abandon":
        abandon_output(file)
        file.write(b"a footer that comes too late")
    del file
    assert any(line.startswith("DELETE") and "uploadId=" in line for line in proxy.requests), proxy.requests
    assert io.stat(f"{folder}/a") is None


def test_a_failed_part_fails_the_file(broken):
    """What the store does not take in the end is an error of the writer, and the file does not appear."""
    io, folder, proxy = broken
    proxy.faults.append(Fault("PUT", "partNumber=2", "refuse", times=100))
    with pytest.raises(OSError, match="retries"), io.open_output(f"{folder}/a") as file:
        file.write(bytes(40 * MEGABYTE))
    assert io.stat(f"{folder}/a") is None


def test_big_and_small_files_come_back_as_they_were(s3):
    """Files below, at and above the size of a part are whole, and any range of them is right."""
    io, folder = s3
    draw = random.Random(7)
    for size in (0, 1, 8 * MEGABYTE, 8 * MEGABYTE + 1, 20 * MEGABYTE + 12_345):
        data = draw.randbytes(size)
        with io.open_output(f"{folder}/a") as file:
            for at in range(0, size, 3 * MEGABYTE):
                file.write(pa.py_buffer(data[at : at + 3 * MEGABYTE]))
            assert file.tell() == size
        assert io.stat(f"{folder}/a").size_bytes == size
        with io.open_input(f"{folder}/a") as file:
            assert file.size() == size
            for _ in range(50):
                start, length = draw.randrange(size + 1), draw.choice([1, 100, 70_000, 2 * MEGABYTE, 17 * MEGABYTE])
                file.seek(start)
                assert file.read(length) == data[start : start + length]


def test_small_reads_are_few_requests(broken):
    """A Parquet file of many small columns is read with a few ranges, not with one for each column."""
    io, folder, proxy = broken
    table = pa.table({f"c{at}": list(range(at, at + 500)) for at in range(100)})
    with io.open_output(f"{folder}/a.parquet") as file:
        pq.write_table(table, file)
    proxy.requests.clear()
    with io.open_input(f"{folder}/a.parquet") as file:
        assert pq.ParquetFile(file).read() == table
    assert len(proxy.requests) <= 6, proxy.requests


def test_a_read_is_of_one_version(s3):
    """A file that is replaced while it is open is not read half old, half new."""
    io, folder = s3
    io.replace(f"{folder}/a", b"o" * 3 * MEGABYTE)
    with io.open_input(f"{folder}/a") as file:
        assert file.read(10) == b"o" * 10
        io.replace(f"{folder}/a", b"n" * 3 * MEGABYTE)
        file.seek(2 * MEGABYTE)
        with pytest.raises(OSError, match="changed while it was read"):
            file.read(10)


def test_versions_of_one_second_differ(s3):
    """Size and time tell two contents of one length apart, though S3 has whole seconds; equal content stays equal."""
    io, folder = s3
    times = []
    for content in (b"one", b"two", b"six"):
        io.replace(f"{folder}/a", content)
        times.append(io.stat(f"{folder}/a").mtime_ns)
    assert len(set(times)) == 3
    assert [entry.mtime_ns for entry in io.list_dir(folder)] == times[-1:]
    assert all(abs(when / 1e9 - time.time()) < 3600 for when in times)


def test_markers_of_other_tools_are_folders(s3, seaweed):
    """The empty object that other tools put for an empty folder is not a file in it."""
    io, folder = s3
    seaweed.other_client().create_dir(f"{folder.removeprefix('s3://')}/empty")
    assert [(entry.name, entry.kind) for entry in io.list_dir(folder)] == [("empty", EntryKind.DIRECTORY)]
    assert list(io.list_dir(f"{folder}/empty")) == []
    assert io.remove_empty_dir(f"{folder}/empty")


def test_other_clients_see_the_same_names(s3, seaweed):
    """Names with percent signs, spaces, equals signs and other alphabets are what they are, for every client."""
    io, folder = s3
    names = ["dt=2024-01-01", "a b", "50%", "a%3Ab", "a+b", "ü日", "x:y", "#?&"]
    for name in names:
        io.replace(f"{folder}/{name}/f", name.encode())
    assert sorted(entry.name for entry in io.list_dir(folder)) == sorted(names)
    client = seaweed.other_client()
    for name in names:
        with client.open_input_file(f"{folder.removeprefix('s3://')}/{name}/f") as file:
            assert file.read() == name.encode()


def test_hazard_17_a_store_that_ignores_the_condition_is_refused(careless, use_s3):
    """A server that ignores the condition and overwrites is detected by a trial, and named; the probe is removed."""
    folder = use_s3(careless)
    io = S3FileIO(S3Settings.from_environment(os.environ))
    for _ in range(2):
        with pytest.raises(RefusedError, match=r"s3://lake of .*two writers could publish one snapshot") as refused:
            check_exclusive(io, folder, what="snapshot")
    assert refused.value.exit_code == 3
    assert io.stat(folder) is None


def test_a_store_that_keeps_the_promise_is_tried_once(broken, monkeypatch):
    """The first check creates one object twice; the second asks nothing; nothing is left."""
    io, folder, proxy = broken
    monkeypatch.setattr(exclusive, "_PROVED", set())
    check_exclusive(io, folder, what="version")
    assert sum(line.startswith("PUT") for line in proxy.requests) == 2
    asked = len(proxy.requests)
    check_exclusive(io, folder, what="version")
    assert len(proxy.requests) == asked
    assert io.stat(folder) is None
    check_exclusive(MemoryFileIO(), "/", what="version")


def test_settings_come_from_the_environment_and_show_no_secret():
    """The address of S3 itself goes before the general one, it must say how to connect, and keys are not shown."""
    read = S3Settings.from_environment
    secret = {"AWS_ACCESS_KEY_ID": "my-key", "AWS_SECRET_ACCESS_KEY": "my-secret", "AWS_SESSION_TOKEN": "my-token"}
    settings = read({"AWS_ENDPOINT_URL": "http://a:1/", "AWS_ENDPOINT_URL_S3": "https://b", **secret})
    assert (settings.endpoint, settings.secret) == ("https://b", "my-secret")
    assert "my-" not in f"{S3FileIO(settings)!r} {settings}"
    assert read({"AWS_ENDPOINT_URL": "http://a:1/", "AWS_DEFAULT_REGION": "r"}) == S3Settings(
        endpoint="http://a:1", region="r"
    )
    with pytest.raises(InvalidInputError, match="must begin with"):
        read({"AWS_ENDPOINT_URL": "a:1"})


def test_a_fork_after_the_first_use_is_reported(s3):
    """Threads do not survive a fork: the child gets an error and does not wait; one forked before may use S3."""
    _, folder = s3
    source = """
        import os, signal, sys
        from packstone.errors import UnavailableError
        from packstone.storage.stores import open_store
        io, path = open_store(sys.argv[1]), sys.argv[1] + "/a"
        for is_used in (False, True):
            if is_used:
                io.replace(path, b"parent")
            child = os.fork()
            if child == 0:
                signal.alarm(30)
                try:
                    io.replace(path, b"child")
                    print("worked", flush=True)
                except UnavailableError as error:
                    print(error.message, flush=True)
                os._exit(0)
            os.waitpid(child, 0)
        print(io.read_bytes(path))
    """
    command = [sys.executable, "-W", "ignore", "-c", textwrap.dedent(source), folder]
    lines = subprocess.run(command, capture_output=True, text=True, check=True, timeout=patient(60)).stdout.splitlines()
    assert (lines[0], lines[2]) == ("worked", "b'parent'")
    assert lines[1].startswith("This process was forked from one that had already used S3")
