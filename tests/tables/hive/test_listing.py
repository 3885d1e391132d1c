"""Listings: the files that Spark and Hive would read, and every sign that somebody is writing."""

import os
import tempfile
import time

import duckdb
import pytest

from packstone.errors import InvalidInputError
from packstone.storage.local import LocalFileIO
from packstone.tables.hive.listing import FRESH_SECONDS, is_hidden, list_again, list_partitions

NOBODY = 65_534
NOW = time.time()


def listings(table, partition="", *, now=NOW):
    """All listings of a table, by partition."""
    found = list_partitions(LocalFileIO(), str(table), partition, now_seconds=now)
    return {listing.partition: listing for listing in found}


def age(path, seconds):
    """Make a path look as if it was last touched this long ago."""
    os.utime(path, (NOW - seconds, NOW - seconds))


@pytest.mark.parametrize(
    ("name", "hidden"),
    [
        ("part-0.parquet", False),
        ("_SUCCESS", True),
        ("_metadata", True),
        (".part-0.crc", True),
        (".hidden=1", True),
        ("_x=1", False),
        ("_x", True),
        ("000000_0", False),
        ("a._COPYING_", True),
        ("=", False),
    ],
)
def test_hidden_as_spark_hides(name, hidden):
    """Names that begin with a dot or an underscore are passed over, but ``_x=1`` is a partition."""
    assert is_hidden(name) is hidden


def test_markers_are_named_and_not_data(lake):
    """Markers, checksums and hidden folders are not data; they are listed as ignored, in order."""
    lake.parquet("dt=1", files=2)
    lake.text("dt=1", {"_SUCCESS": b"", ".part-00000.parquet.crc": b"", "_metadata": b"x", "_started_1": b""})
    lake.text("dt=1/_old", {"part-9.parquet": b"x"})
    lake.text("dt=1/.trash", {"part-8.parquet": b"x"})
    (listing,) = listings(lake.table).values()
    assert [file.name for file in listing.files] == ["part-00000.parquet", "part-00001.parquet"]
    assert listing.ignored == (
        ".part-00000.parquet.crc", ".trash", "_SUCCESS", "_metadata", "_old", "_started_1",
    )  # fmt: skip
    assert listing.summaries == ("_metadata",)
    assert listing.writing is None
    assert str(listing) == f"dt=1 2 files {listing.total_bytes}B"


def test_kept_originals_are_no_data(lake):
    """Files that end in ``.kept`` are backups of ours: ignored beside data, and a folder of them holds none."""
    lake.parquet("dt=1", files=1)
    lake.text("dt=1", {"a.txt.kept": b"x\n", "kept": b"x\n"})
    lake.text("dt=2", {f"{at}.parquet.kept": b"x" for at in range(6)})
    lake.parquet("dt=3.kept", files=1)
    found = listings(lake.table)
    assert list(found) == ["dt=1", "dt=3.kept"]
    assert [file.name for file in found["dt=1"].files] == ["kept", "part-00000.parquet"]
    assert found["dt=1"].ignored == ("a.txt.kept",)


def test_partitions_of_all_depths(lake):
    """Every folder that holds data is one listing, named by its path, in order; empty ones are none."""
    for folder in ("", "b=1", "a=1/h=02", "a=1/h=01", "_x=1", "plain/deep"):
        lake.parquet(folder, files=1)
    lake.folder("empty=1")
    assert list(listings(lake.table)) == ["", "_x=1", "a=1/h=01", "a=1/h=02", "b=1", "plain/deep"]
    assert list(listings(lake.table, "a=1")) == ["a=1/h=01", "a=1/h=02"]


def test_one_folder_alone(lake):
    """The second listing of a partition does not walk below it."""
    lake.parquet("a=1", files=2)
    lake.parquet("a=1/h=01", files=3)
    listing = list_again(LocalFileIO(), str(lake.table), listings(lake.table)["a=1"], now_seconds=NOW)
    assert len(listing.files) == 2


def test_links_are_left_alone(lake, tmp_path):
    """A linked file is named as ignored, a linked folder is not entered: what they lead to is not ours to move."""
    lake.parquet("dt=1", files=1)
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "part-9.parquet").write_bytes(b"x")
    (lake.table / "dt=1" / "linked.parquet").symlink_to(outside / "part-9.parquet")
    (lake.table / "dt=1" / "dangling").symlink_to("nowhere")
    (lake.table / "dt=2").symlink_to(outside)
    found = listings(lake.table)
    assert list(found) == ["dt=1"]
    assert found["dt=1"].ignored == ("dangling (symbolic link)", "linked.parquet (symbolic link)")
    assert [file.name for file in found["dt=1"].files] == ["part-00000.parquet"]


def test_sockets_and_pipes_are_no_data(lake):
    """What is neither file nor folder is passed over by name, and never opened."""
    lake.parquet("dt=1", files=1)
    os.mkfifo(lake.table / "dt=1" / "pipe")
    (listing,) = listings(lake.table).values()
    assert (len(listing.files), listing.ignored) == (1, ("pipe",))


WRITER_FOLDERS = [
    "_temporary",
    ".hive-staging_hive_2024-01-01",
    "_impala_insert_staging",
    ".spark-staging-1",
    "_tmp.-ext-10000",
    "-ext-10001",
]
WRITER_FILES = [
    "part-1.inprogress",
    "part-1.inprogress.0",
    "a.pending",
    "a.writing",
    "a.tmp",
    "a._COPYING_",
    "a.filepart",
]


@pytest.mark.parametrize("name", WRITER_FOLDERS)
def test_a_writers_folder_is_a_sign_while_it_is_fresh(lake, name):
    """A job's staging folder keeps the partition from being touched, until nothing in it changed for a day."""
    lake.parquet("dt=1", files=1)
    folder = lake.folder(f"dt=1/{name}")
    assert "shows that a job is writing" in listings(lake.table)["dt=1"].writing
    age(folder, FRESH_SECONDS + 60)
    assert listings(lake.table)["dt=1"].writing is None


def test_a_fresh_file_deep_in_an_old_folder_is_a_sign(lake):
    """The folder itself may be old: a task's attempt file below it tells that the job is alive."""
    lake.parquet("dt=1", files=1)
    deep = lake.text("dt=1/_temporary/0/_temporary/attempt_1", {"part-0.parquet": b"x"})
    old = [deep / "part-0.parquet", deep, deep.parent, deep.parent.parent, lake.table / "dt=1" / "_temporary"]
    for path in old:
        age(path, FRESH_SECONDS + 60)
    assert listings(lake.table)["dt=1"].writing is None
    age(deep / "part-0.parquet", 60)
    assert listings(lake.table)["dt=1"].writing is not None


@pytest.mark.parametrize("name", WRITER_FILES)
def test_a_file_being_written_is_a_sign_and_no_data(lake, name):
    """Flink's and HDFS's unfinished files are never merged; a fresh one keeps the partition from being touched."""
    lake.parquet("dt=1", files=1)
    lake.text("dt=1", {name: b"half"})
    listing = listings(lake.table)["dt=1"]
    assert len(listing.files) == 1
    assert "is being written" in listing.writing
    age(lake.table / "dt=1" / name, FRESH_SECONDS + 60)
    assert listings(lake.table)["dt=1"].writing is None


def test_a_job_at_the_root_writes_to_all_partitions(lake):
    """Spark keeps ``_temporary`` in the table's root: it counts for every partition, also if one is named alone."""
    lake.parquet("a=1/h=01", files=1)
    lake.parquet("a=2", files=1)
    lake.folder("_temporary")
    assert all(listing.writing for listing in listings(lake.table).values())
    assert listings(lake.table, "a=1/h=01")["a=1/h=01"].writing is not None
    before = listings(lake.table)["a=2"]
    assert list_again(LocalFileIO(), str(lake.table), before, now_seconds=NOW).writing is not None


def test_a_job_in_a_sibling_is_no_sign(lake):
    """A writer of one partition does not stop the others."""
    lake.parquet("a=1", files=1)
    lake.parquet("a=2", files=1)
    lake.folder("a=2/_temporary")
    found = listings(lake.table)
    assert (found["a=1"].writing, found["a=2"].writing is None) == (None, False)


def test_a_table_of_another_kind_below_is_refused(lake):
    """A Delta table in a subfolder is named and not entered; the rest of the walk goes on."""
    lake.parquet("a=1", files=1)
    lake.parquet("delta", files=1)
    lake.folder("delta/_delta_log")
    found = listings(lake.table)
    assert "Delta Lake" in found["delta"].refused
    assert (found["delta"].files, found["a=1"].refused) == ((), None)


def open_to_everybody(lake):
    """Everybody may write in the table's folder and beside it, and enter those above."""
    for folder in (lake.table, lake.root):
        folder.chmod(0o777)
    for above in lake.root.parents:  # of the test session, however deep it is
        if above.is_relative_to(tempfile.gettempdir()) and above.owner() == "root" and not above.stat().st_mode & 0o001:
            above.chmod(0o755)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_a_folder_that_may_not_be_listed_is_refused(children, lake):
    """No permission is a reason, not a crash, and not an empty partition."""
    lake.parquet("dt=1", files=6)
    lake.parquet("dt=2", files=6)
    open_to_everybody(lake)
    (lake.table / "dt=1").chmod(0o700)
    (lake.table / "dt=2").chmod(0o777)
    for path in (lake.table / "dt=2").iterdir():
        os.chown(path, NOBODY, NOBODY)
    done = children.run("compact", path=str(lake.table), uid=NOBODY)
    why = {skip["what"]: skip["why"] for skip in done["value"]["skipped"]}
    assert "permission denied" in why["dt=1"]
    assert done["value"]["units"][0]["part"] == "dt=2"
    assert len(lake.names("dt=1")) == 6


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_what_may_not_be_replaced_is_refused_before_it_is_merged(children, lake):
    """A folder without the right to write, and files whose owner or group the merged file cannot get: exit code 3."""
    owners = {"dt=1": (NOBODY, NOBODY), "dt=2": (0, NOBODY), "dt=3": (NOBODY, 0)}
    for partition, (user, group) in owners.items():
        lake.parquet(partition, files=6)
        (lake.table / partition).chmod(0o755 if partition == "dt=1" else 0o777)
        for path in (lake.table / partition).iterdir():
            os.chown(path, user, group)
    open_to_everybody(lake)
    before = lake.ids()
    done = children.run("compact", path=str(lake.table), uid=NOBODY)["value"]
    why = {skip["what"]: skip["why"] for skip in done["skipped"]}
    assert done["status"] == "refused"
    assert done["cost"]["write_bytes"] == 0
    assert "may not write to the folder" in why["dt=1"]
    assert "belong to another user" in why["dt=2"]
    assert "not a member" in why["dt=3"]
    assert lake.ids() == before


def test_a_target_that_is_no_folder(lake):
    """A missing path and a file get a sentence each."""
    lake.parquet("dt=1", files=1)
    with pytest.raises(InvalidInputError, match="does not exist"):
        listings(lake.table, "dt=9")
    with pytest.raises(InvalidInputError, match="is a file"):
        listings(lake.table / "dt=1" / "part-00000.parquet")


def test_we_see_what_duckdb_sees(lake):
    """The rows of the listed files are the rows of the table, by a reader that is not ours."""
    for folder in ("dt=1", "dt=2/h=1", "_x=1"):
        lake.parquet(folder, files=2)
    paths = [f"{one.directory}/{file.name}" for one in listings(lake.table).values() for file in one.files]
    ours = duckdb.read_parquet(paths).order("id").fetchall()
    theirs = duckdb.read_parquet(f"{lake.table}/**/*.parquet").order("id").fetchall()
    assert [row[0] for row in ours] == [row[0] for row in theirs] == lake.ids()
