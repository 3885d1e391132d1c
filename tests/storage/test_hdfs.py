"""HDFS: what its FileIO promises beyond the common contract, on a real NameNode and DataNode."""

import errno
import os
import pickle
import pwd
import signal
import subprocess
import sys
import time
from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hdfs_cluster import NameNodeProxy, write_settings
from patience import patient

from packstone.errors import InvalidInputError
from packstone.storage import hdfs as hdfs_module
from packstone.storage.fileio import EntryKind
from packstone.storage.hdfs import HdfsFileIO
from packstone.storage.hdfs_connection import HdfsSettings, as_os_errors


@pytest.fixture
def io_and_folder(use_hdfs):
    """The store, and a folder of the test's own."""
    io = HdfsFileIO(HdfsSettings.from_environment(use_hdfs, os.environ))
    io.make_dirs(use_hdfs)
    return io, use_hdfs


@pytest.fixture
def lossy(hdfs, io_and_folder):
    """A proxy that can lose answers, and the store seen through it."""
    proxy = NameNodeProxy(hdfs.port)
    io = HdfsFileIO(HdfsSettings(url=proxy.url))
    yield proxy, io, proxy.url + io_and_folder[1].removeprefix(hdfs.url)
    proxy.close()


AS_SENT = """
import os, pickle, sys
io = pickle.loads(bytes.fromhex(sys.argv[1]))
io.write_new(sys.argv[2], b"mine")
print(os.environ.get("HADOOP_USER_NAME"))
"""


@pytest.mark.parametrize(
    ("environment", "user"),
    [
        ({"HADOOP_USER_NAME": "etl", "SPARK_USER": "submitter"}, "etl"),
        ({"SPARK_USER": "submitter"}, "submitter"),
        ({"USER": "somebody", "LOGNAME": "somebody"}, pwd.getpwuid(os.geteuid()).pw_name),
    ],
)
def test_an_executor_acts_as_the_drivers_user(hdfs, io_and_folder, environment, user):
    """What the driver sends decides who writes, not the environment of the process that it is sent to."""
    folder = io_and_folder[1]
    hdfs.client().set_permission(folder.removeprefix(hdfs.url), 0o777)
    sent = pickle.dumps(HdfsFileIO(HdfsSettings.from_environment(folder, {**hdfs.env, **environment})))
    command = [sys.executable, "-c", AS_SENT, sent.hex(), f"{folder}/{user}"]
    env = {"PATH": os.defpath, "USER": "nobody", "SPARK_USER": "somebody-else"}
    subprocess.run(command, env=env, check=True, timeout=patient(60))
    assert hdfs.client().get_file_info(f"{folder}/{user}".removeprefix(hdfs.url)).owner == user


def test_folders_of_other_users_do_not_hide_the_space(hdfs, io_and_folder):
    """The NameNode sums up a folder only for who may read all below it; what it does not tell counts as enough."""
    folder = io_and_folder[1]
    inside = folder.removeprefix(hdfs.url)
    hdfs.client().mkdirs(f"{inside}/mine", create_parent=True)
    hdfs.client().mkdirs(f"{inside}/theirs", permission=0o700, create_parent=True)
    program = "import pickle, sys; print(pickle.loads(bytes.fromhex(sys.argv[1])).free_bytes(sys.argv[2]))"
    sent = pickle.dumps(HdfsFileIO(HdfsSettings.from_environment(folder, {**hdfs.env, "HADOOP_USER_NAME": "etl"})))
    command = [sys.executable, "-c", program, sent.hex(), f"{folder}/mine"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=patient(60))
    assert int(done.stdout) > 1 << 40


def test_kerberos_decides_itself_who_writes(tmp_path):
    """With Kerberos nobody is named: the ticket or the token tells who it is."""
    write_settings(tmp_path / "core-site.xml", {"hadoop.security.authentication": "kerberos"})
    settings = HdfsSettings.from_environment("hdfs://nn:8020/", {"HADOOP_CONF_DIR": str(tmp_path), "SPARK_USER": "a"})
    assert settings.user == ""


def test_of_many_processes_one_creates(io_and_folder, children, hdfs):
    """Of many processes that create the same names at the same moments, each name has one winner, and its bytes."""
    io, folder = io_and_folder
    paths = [f"{folder}/{number}" for number in range(5)]
    calls = {"paths": paths, "start": time.monotonic() + 1.5, "interval": 0.2, "env": hdfs.env}
    pids = [children.start("write_new_each", **calls) for _ in range(6)]
    answers = {pid: children.wait(pid)["value"] for pid in pids}
    assert sorted(path for won in answers.values() for path in won) == paths
    for pid, won in answers.items():
        assert all(io.read_bytes(path) == f"{pid}".encode() * 10_000 for path in won)
    assert sorted(entry.name for entry in io.list_dir(folder)) == [str(number) for number in range(5)]


def test_a_rename_whose_answer_was_lost_is_done(lossy):
    """The NameNode renamed and the answer was lost: the move is done, and no rival of itself."""
    proxy, io, folder = lossy
    io.replace(f"{folder}/a", b"rows")
    proxy.lose_answer_of = b"rename2"
    io.move(f"{folder}/a", f"{folder}/b")
    assert proxy.lost == 1
    assert [entry.name for entry in io.list_dir(folder)] == ["b"]
    proxy.lose_answer_of = b"rename2"
    io.write_new(f"{folder}/new", b"once")
    assert proxy.lost == 2
    with pytest.raises(FileExistsError):
        io.write_new(f"{folder}/new", b"twice")
    assert io.read_bytes(f"{folder}/new") == b"once"


@pytest.mark.parametrize("question", [b"rename2", b"getFileInfo", b"delete", b"mkdirs", b"create"])
def test_a_question_that_got_lost_is_asked_again(lossy, question):
    """The NameNode died with it, and refuses connections for a while: every call is done once."""
    proxy, io, folder = lossy
    io.replace(f"{folder}/a", b"rows")
    proxy.lose_question_of = question
    io.make_dirs(f"{folder}/deep/er")
    io.move(f"{folder}/a", f"{folder}/deep/b")
    io.replace(f"{folder}/deep/b", b"more")
    io.write_new(f"{folder}/c", b"new")
    io.remove(f"{folder}/c")
    assert proxy.lost == 1
    assert [entry.name for entry in io.list_dir(folder)] == ["deep"]
    assert sorted(entry.name for entry in io.list_dir(f"{folder}/deep")) == ["b", "er"]
    assert io.read_bytes(f"{folder}/deep/b") == b"more"


def test_whoever_hangs_up_always_is_not_asked_for_ever(monkeypatch):
    """As a proxy before a dead NameNode: after a while it is reported as one that does not answer."""
    monkeypatch.setattr(hdfs_module, "_BROKEN_SECONDS", 0.5)
    io, asked = HdfsFileIO(HdfsSettings(url="hdfs://127.0.0.1:1")), []

    def hang_up(_client):
        asked.append(1)
        raise OSError("RPC listener disconnected")

    began = time.monotonic()
    with pytest.raises(TimeoutError, match="does not answer: RPC listener disconnected"):
        io._ask("hdfs://127.0.0.1:1/a", hang_up)
    assert 2 <= len(asked) <= 4
    assert time.monotonic() - began >= 0.5
    with pytest.raises(TimeoutError):
        io._ask("hdfs://127.0.0.1:1/a", hang_up)
    assert len(asked) <= 5  # it is known to be silent


def test_a_directory_is_reported_as_one_whatever_its_name():
    """A folder may be named as an error is; the library says its name only."""
    with pytest.raises(IsADirectoryError) as caught, as_os_errors("hdfs://nn/lake/reset by peer"):
        raise IsADirectoryError("/lake/reset by peer")
    assert caught.value.filename == "hdfs://nn/lake/reset by peer"


@pytest.mark.parametrize("said", ["All nodes failed for write", "Datanode connection closed while waiting for ack"])
def test_a_record_is_written_again_if_its_datanode_dies(io_and_folder, monkeypatch, said):
    """The library says neither a timeout nor a broken connection then."""
    io, folder = io_and_folder
    sync, failures = hdfs_module.HdfsWriter._sync, [RuntimeError(f'DataTransferError("{said}")')]

    def fail_once(writer):
        if failures:
            raise failures.pop()
        sync(writer)

    monkeypatch.setattr(hdfs_module.HdfsWriter, "_sync", fail_once)
    io.write_new(f"{folder}/record", b"whole")
    assert not failures
    assert [(entry.name, io.read_bytes(f"{folder}/{entry.name}")) for entry in io.list_dir(folder)] == [
        ("record", b"whole")
    ]


def write_megabytes(io, path):
    """Write a file of several pieces."""
    with io.open_output(path) as file:
        file.write(b"x" * (3 << 20))


def test_a_datanode_that_never_answers_is_not_waited_for(io_and_folder, hdfs, monkeypatch):
    """The library would wait for ever; we give up, say so, and write the record again when the DataNode is back."""
    io, folder = io_and_folder
    monkeypatch.setattr(hdfs_module, "_ACKNOWLEDGED_SECONDS", 1)
    hdfs.signal("datanode", signal.SIGSTOP)
    try:
        with pytest.raises(OSError, match="the DataNodes have not acknowledged") as caught:
            write_megabytes(io, f"{folder}/data")
        assert caught.value.errno == errno.ETIMEDOUT
        failed = []
        call, sleep = hdfs_module.HdfsWriter._call, time.sleep

        def wake_after_the_failure(seconds):  # also called before it: by other threads, and by retries of the NameNode
            if failed:
                hdfs.signal("datanode", signal.SIGCONT)
            else:
                sleep(seconds)

        monkeypatch.setattr(hdfs_module.time, "sleep", wake_after_the_failure)

        def fail_soon(writer, wanted):
            monkeypatch.setattr(hdfs_module, "_ACKNOWLEDGED_SECONDS", patient(30) if failed else 1)
            try:
                call(writer, wanted)
            except OSError as error:
                failed.append(error)
                raise

        monkeypatch.setattr(hdfs_module.HdfsWriter, "_call", fail_soon)
        io.write_new(f"{folder}/record", b"whole")
    finally:
        hdfs.signal("datanode", signal.SIGCONT)
    assert len(failed) == 1
    assert io.read_bytes(f"{folder}/record") == b"whole"


def test_the_root_and_what_is_above(io_and_folder, hdfs):
    """The authority alone is the root folder; what path algebra makes above it is nothing, not an error."""
    io, _ = io_and_folder
    assert io.stat(hdfs.url).kind is EntryKind.DIRECTORY
    assert io.stat(f"{hdfs.url}/").kind is EntryKind.DIRECTORY
    assert [io.stat(path) for path in ("hdfs:/", "hdfs:", "/", "hdfs://other:1/x")] == [None] * 4


def test_no_authority_means_the_default(hdfs):
    """``hdfs:///`` is the configuration's fs.defaultFS; without one the sentence says what to set."""
    assert HdfsSettings.from_environment("hdfs:///data", hdfs.env).url == hdfs.url
    assert HdfsSettings.from_environment("hdfs://ns1/data", {}).url == "hdfs://ns1"
    with pytest.raises(InvalidInputError, match="HADOOP_CONF_DIR"):
        HdfsSettings.from_environment("hdfs:///data", {})


def test_the_name_service_of_the_configuration_is_used(io_and_folder, hdfs, tmp_path):
    """A name service with two NameNodes, of which one is away, is reached by its logical name."""
    io, folder = io_and_folder
    io.replace(f"{folder}/a", b"x")
    own = {
        "dfs.nameservices": "ns1",
        "dfs.ha.namenodes.ns1": "one,two",
        "dfs.namenode.rpc-address.ns1.one": "127.0.0.1:1",
        "dfs.namenode.rpc-address.ns1.two": hdfs.direct_url.removeprefix("hdfs://"),
    }
    items = "".join(f"<property><name>{k}</name><value>{v}</value></property>" for k, v in own.items())
    (tmp_path / "hdfs-site.xml").write_text(f"<configuration>{items}</configuration>")
    settings = HdfsSettings.from_environment("hdfs://ns1", {"HADOOP_CONF_DIR": str(tmp_path)})
    assert HdfsFileIO(settings).read_bytes(f"hdfs://ns1{folder.removeprefix(hdfs.url)}/a") == b"x"


def test_owner_group_mode_acl_and_replication_are_set_and_read(io_and_folder):
    """All that a file is kept with is read by one call and set by another; setting less takes away."""
    io, folder = io_and_folder
    io.replace(f"{folder}/a", b"x")
    plain = io.read_permissions(f"{folder}/a")
    rich = replace(plain, owner="ann", group="analysts", mode=0o670, replication=2)
    rich = replace(rich, attributes=("group::r--", "user:joe:rw-"))
    io.set_permissions(f"{folder}/a", rich)
    assert io.read_permissions(f"{folder}/a") == rich
    assert str(rich) == "ann:analysts 0670 x2 group::r-- user:joe:rw-"
    io.set_permissions(f"{folder}/a", plain)
    assert io.read_permissions(f"{folder}/a") == plain


def test_parquet_of_many_row_groups_is_read_at_random(io_and_folder, hdfs):
    """PyArrow reads any row group and column of a file that it wrote itself, and the library's own client the same."""
    io, folder = io_and_folder
    table = pa.table({"id": range(300_000), "name": [f"name {at % 977}" for at in range(300_000)]})
    with io.open_output(f"{folder}/t.parquet") as file:
        pq.write_table(table, file, row_group_size=10_000)
    with io.open_input(f"{folder}/t.parquet") as source:
        file = pq.ParquetFile(source)
        picked = pa.concat_tables([file.read_row_group(at, columns=["name"]) for at in (29, 0, 17)])
        assert picked["name"][10_000].as_py() == "name 0"
        assert file.read().equals(table)
    whole = hdfs.get(f"{folder.removeprefix(hdfs.url)}/t.parquet")
    assert pq.ParquetFile(pa.BufferReader(whole)).read().equals(table)


def test_errors_are_one_line_with_a_number_and_the_path(io_and_folder):
    """What the NameNode refuses is an OSError of the right kind, without a Java stack."""
    io, folder = io_and_folder
    io.replace(f"{folder}/a", b"x")
    with pytest.raises(NotADirectoryError) as below:
        io.replace(f"{folder}/a/b", b"x")
    with pytest.raises(OSError, match="is a directory or file under source") as under:
        io.move(folder, f"{folder}/under")
    for error in (below.value, under.value):
        assert "\n" not in error.strerror
        assert error.filename.startswith(folder)
