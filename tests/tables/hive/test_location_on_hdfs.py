"""Hive directories on HDFS whose partitions are published by their location, with a real NameNode."""

import json
from itertools import count

import pytest
from location_calls import catalog_of, open_published
from metastore_lake import read_ids

from packstone.storage.stores import open_store
from packstone.tables.hive.options import HiveOptions

OPTIONS = {"target_bytes": 10_000, "keep_days": 0}


class Scene:
    """One table after the other: small files of one partition, a big one, and a catalogue beside them."""

    def __init__(self, cluster, address, lake, scratch):
        self.cluster, self._address, self._lake, self._scratch = cluster, address, lake, scratch
        self._numbers = count()
        lake.parquet("dt=1", files=6)
        lake.parquet("dt=1", files=1, rows=5_000)
        self.ids = lake.ids()

    def new(self):
        """A fresh table on HDFS."""
        path = f"{self._address}/{next(self._numbers)}/orders"
        self.cluster.upload(self._lake.table, path.removeprefix(self.cluster.url))
        place = {"dt=1": {"location": f"{path}/dt=1"}}
        open_store(path).replace(f"{path}.catalog", json.dumps(place).encode())
        return path

    def rows(self, path):
        """The rows where the catalogue says the partition is, by a client that is not ours."""
        location = catalog_of(path, open_store(path)).read_location("sales.orders", "dt=1")
        inside = location.removeprefix(self.cluster.url)
        return read_ids(self.cluster.download(inside, self._scratch / f"read-{next(self._numbers)}"))


@pytest.fixture
def scene(hdfs, use_hdfs, lake, tmp_path):
    """The scene."""
    return Scene(hdfs, use_hdfs, lake, tmp_path)


def opened(path):
    """A table on HDFS, published by location."""
    return open_published(path, open_store(path))


def test_published_undone_and_cleaned(scene):
    """The new folder has all rows and the old one's modes, ``restore`` goes back, ``clean`` leaves what is read."""
    path = scene.new()
    inside = path.removeprefix(scene.cluster.url)
    scene.cluster.client().set_permission(f"{inside}/dt=1/part-00006.parquet", 0o640)
    outcome = opened(path).compact(HiveOptions(**OPTIONS))
    assert (outcome.status, outcome.files_before, outcome.files_after) == ("committed", 7, 2)
    version = f"{inside.rpartition('/')[0]}/.packstone/orders/versions/{outcome.run}/dt=1"
    assert catalog_of(path, open_store(path)).read()["dt=1"]["location"] == f"{scene.cluster.url}{version}"
    assert scene.rows(path) == scene.ids
    modes = {one.path.rpartition("/")[2]: one.permission for one in scene.cluster.client().list_status(version)}
    assert oct(modes["part-00006.parquet"])[-3:] == "640"
    opened(path).restore(outcome.run)
    assert scene.rows(path) == scene.ids
    assert opened(path).compact(HiveOptions(**OPTIONS)).status == "committed"
    assert opened(path).clean().to_json()["files"] == 7 + 2  # the originals, and the folder that was undone
    assert scene.rows(path) == scene.ids


def test_killed_around_the_call(scene, children):
    """Killed before, at or after the step that changes the catalogue: every row once, before and after recovery."""
    steps = children.run("location_compact", path=scene.new(), env=scene.cluster.env, **OPTIONS)["steps"]
    call = next(at for at, name in enumerate(steps) if "catalog" in name)
    for step in (call - 1, call, call + 1):
        path, where = scene.new(), f"killed after step {step}: {steps[step]}"
        fault = {"step": step, "action": "kill", "moment": "after"}
        done = children.run("location_compact", path=path, fault=fault, env=scene.cluster.env, **OPTIONS)
        assert done["status"] == -9, (where, done)
        assert scene.rows(path) == scene.ids, where
        assert opened(path).recover().to_json()["status"] in ("recovered", "nothing-to-do"), where
        assert scene.rows(path) == scene.ids, where
        assert opened(path).recover().to_json()["status"] == "nothing-to-do", where
