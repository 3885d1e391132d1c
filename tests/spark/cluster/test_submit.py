"""``spark-submit packstone_merge.py`` on a cluster whose executors have no Packstone."""

from __future__ import annotations

import json

from standalone import REPO, can_import

JOB = REPO / "packstone_merge.py"


def test_the_package_goes_to_executors_by_itself(cluster, orders, rows):
    """The driver ships its own Packstone: executors that have none, and cannot import one, do the work."""
    orders.write(partitions=1)
    before = rows(orders.path)
    assert can_import(cluster.python, "pyarrow")
    assert not can_import(cluster.python, "packstone")
    done = cluster.submit(JOB, "file:///", orders.path / "dt=0", "120M", "--format", "json")
    assert done.returncode == 0, done.stderr[-3000:]
    said = json.loads(done.stdout)
    assert (said["status"], said["files_after"], len(orders.files())) == ("committed", 1, 1)
    assert rows(orders.path) == before
    assert any(name.startswith("packstone-") for name in cluster.shipped())
