"""`packstone demo` does what it shows, and leaves nothing behind."""

import tempfile
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from packstone.cli.main import COMMANDS
from packstone.cli.tour import BROKEN_PARTITION, BUSY_PARTITION, make_lake


@pytest.fixture
def own_temp(tmp_path, monkeypatch) -> Path:
    """A folder for temporary files that nobody else uses."""
    folder = tmp_path / "temp"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


def test_the_tour_goes_from_ill_to_well_and_back(packstone, own_temp, tmp_path):
    """It shows its commands as typed, ends with 0, and leaves neither a lake nor a run in the user's history."""
    done = packstone("demo")
    assert done.code == 0, done.err
    typed = [line.removeprefix("$ packstone ").split()[0] for line in done.out.splitlines() if line.startswith("$ ")]
    loads = ["segments"] * 5
    merging = ["health", "plan", "compact", "verify", "compact", "restore"]
    assert typed == [*merging, *loads, "compact", "segments", "history"]
    assert set(typed) <= set(COMMANDS)
    assert "before  405 files, health 2" in done.out
    assert "after  12 files, health 75" in done.out
    assert "\x1b[" not in done.out
    assert list(own_temp.iterdir()) == []
    assert packstone("history").out == "No runs are recorded.\n"


def test_a_named_folder_stays(packstone, tmp_path):
    """With --folder the lake can be looked at afterwards: one run merged, the other one undone."""
    done = packstone("demo", "--folder", tmp_path / "lake")
    assert done.code == 0
    files = {folder.name: len(list(folder.glob("[!_]*"))) for folder in (tmp_path / "lake" / "orders").iterdir()}
    assert files["dt=2024-05-02"] == 1
    assert files[BUSY_PARTITION] == 30


def test_a_folder_in_use_is_refused(packstone, tmp_path, tree):
    """A folder that holds something is not a place for a lake; nothing in it is touched."""
    (tmp_path / "mine.txt").write_text("mine")
    before = tree(tmp_path)
    done = packstone("demo", "--folder", tmp_path)
    assert done.code == 2
    assert "is not empty" in done.sentence
    assert tree(tmp_path) == before


def test_lake_only_needs_a_folder(packstone):
    """A lake that shall stay needs a place."""
    assert packstone("demo", "--lake-only").code == 2


def test_the_lake_is_the_same_every_time(tmp_path):
    """Two lakes hold the same bytes, so the documentation can show what everybody sees."""
    one, two = make_lake(tmp_path / "one"), make_lake(tmp_path / "two")
    for path in sorted(one.table.rglob("part-0000*")):
        assert path.read_bytes() == (two.table / path.relative_to(one.table)).read_bytes()


def test_the_lake_has_one_broken_file(tmp_path):
    """Of all Parquet files exactly one, in the partition that says so, has no footer."""
    lake = make_lake(tmp_path / "lake")
    broken = []
    for path in lake.table.glob("dt=*/*.parquet"):
        try:
            pq.read_metadata(path)
        except OSError:
            broken.append(path.parent.name)
        except ValueError:  # pyarrow.ArrowInvalid
            broken.append(path.parent.name)
    assert broken == [BROKEN_PARTITION]
