"""Hive directories on S3 whose partitions are published by their location: nothing is renamed under a reader."""

import json

import pytest
from location_calls import catalog_of, open_published

from packstone.errors import RefusedError
from packstone.storage.stores import open_store
from packstone.tables.hive.options import HiveOptions


@pytest.fixture
def make(use_s3, lake):
    """Small files of one partition on a server, and a catalogue beside them."""
    lake.parquet("dt=1", files=6)
    lake.parquet("dt=1", files=1, rows=5_000)

    def on(server, name="one"):
        path = f"{use_s3(server)}/{name}/orders"
        io = open_store(path)
        for file in (lake.table / "dt=1").iterdir():
            io.replace(f"{path}/dt=1/{file.name}", file.read_bytes())
        place = {"dt=1": {"location": f"s3a{path[2:]}/dt=1"}}
        io.replace(f"{path}.catalog", json.dumps(place).encode())
        return path, io

    return on


def ids_at(server, io, path, folder):
    """The rows where the catalogue says the partition is, by a client that is not ours."""
    from metastore_lake import read_ids

    location = catalog_of(path, io).read_location("sales.orders", "dt=1")
    return read_ids(server.fetch(location.replace("s3a:", "s3:"), folder))


def test_hazard_17_published_without_a_rename(seaweed, make, lake, tmp_path):
    """Merged, undone, merged again and cleaned on a real server; the rows are all there at every stage."""
    path, io = make(seaweed)
    ids = lake.ids()
    options = HiveOptions(target_bytes=10_000, threshold_bytes=120 << 20, keep_days=0)
    outcome = open_published(path, io).compact(options)
    assert (outcome.status, outcome.files_before, outcome.files_after) == ("committed", 7, 2)
    facts = catalog_of(path, io).read()["dt=1"]
    assert (facts["location"], facts["numFiles"]) == (
        f"s3a{path.rpartition('/')[0][2:]}/.packstone/orders/versions/{outcome.run}/dt=1",
        2,
    )
    assert ids_at(seaweed, io, path, tmp_path / "merged") == ids
    assert open_published(path, io).compact(options).status == "nothing-to-do"
    open_published(path, io).restore(outcome.run)
    assert ids_at(seaweed, io, path, tmp_path / "restored") == ids
    assert open_published(path, io).compact(options).status == "committed"
    assert open_published(path, io).clean().to_json()["files"] == 7 + 2  # the originals, and the folder that was undone
    assert ids_at(seaweed, io, path, tmp_path / "cleaned") == ids
    assert list(io.list_dir(path)) == [] if io.stat(path) is not None else True


def test_killed_at_every_step_of_a_switch_on_s3(seaweed, make, lake, tmp_path, children):
    """From the intent to the last mark: readers see every row once, before and after recovery."""
    options = {"target_bytes": 10_000}
    path, io = make(seaweed, "whole")
    steps = children.run("location_compact", path=path, env=seaweed.env, **options)["steps"]
    ends = [at for at, name in enumerate(steps) if name.endswith(("wave-0001.intent.json", "wave-0001.marks.json"))]
    assert len(ends) == 2
    for step in range(ends[0], ends[1] + 1):
        where = f"killed after step {step}: {steps[step]}"
        path, io = make(seaweed, f"s{step}")
        fault = {"step": step, "action": "kill", "moment": "after"}
        done = children.run("location_compact", path=path, fault=fault, env=seaweed.env, **options)
        assert done["status"] == -9, (where, done)
        assert ids_at(seaweed, io, path, tmp_path / f"{step}-killed") == lake.ids(), where
        assert open_published(path, io).recover().to_json()["status"] in ("recovered", "nothing-to-do"), where
        assert ids_at(seaweed, io, path, tmp_path / f"{step}-repaired") == lake.ids(), where
        assert open_published(path, io).recover().to_json()["status"] == "nothing-to-do", where


def test_a_careless_server_is_refused(careless, make):
    """Where a file can be created twice, two runs could own one partition."""
    path, io = make(careless)
    with pytest.raises(RefusedError, match="only if it is absent"):
        open_published(path, io).compact(HiveOptions())
