"""Hive directories on S3 are looked at and planned, and not merged: there is no rename."""

import pytest


@pytest.fixture
def directory(seaweed, use_s3, lake):
    """A directory of small files on the real server."""
    lake.parquet("dt=2024-01-01", files=8)
    return seaweed.send(lake.table, f"{use_s3(seaweed)}/orders")


def test_hazard_17_hive_directories_on_object_stores_are_refused(directory, packstone, seaweed, tmp_path, lake):
    """`compact` and the classic `merge` end with exit code 3 and one sentence, and change nothing."""
    top, path = directory.rpartition("lake")[0] + "lake/", directory.partition("lake")[2]
    for words in (("compact", directory), ("merge", top, path, "120M")):
        done = packstone(*words)
        assert done.code == 3
        assert f"{directory} is on an object store, which has no atomic rename" in done.sentence
    fetched = seaweed.fetch(directory.rpartition("/")[0], tmp_path / "fetched")
    files = sorted(str(file.relative_to(fetched)) for file in fetched.rglob("*") if file.is_file())
    assert files == [f"orders/dt=2024-01-01/part-{at:05d}.parquet" for at in range(8)]


def test_hive_directories_are_looked_at_and_planned(directory, packstone):
    """`health` and `plan` read only, and work; `recover` and `clean` have nothing to do."""
    health = packstone("health", directory, "--format", "json").json
    assert [hazard["hazard"] for hazard in health["hazards"]] == ["object-store"]
    plan = packstone("plan", directory, "--format", "json").json
    assert (plan["status"], plan["files_before"], plan["files_after"]) == ("planned", 8, 1)
    for command in (("recover",), ("clean", "--yes")):
        assert packstone(*command[:1], directory, *command[1:]).code == 0
    missing = packstone("health", f"{directory}-not")
    assert (missing.code, "does not exist" in missing.sentence) == (2, True)
