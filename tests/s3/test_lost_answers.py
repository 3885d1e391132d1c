"""Commits on S3 through a network that loses answers: what was committed is known to be, once, and nothing else is."""

import itertools
from collections import Counter

import pytest
from paimon_lake import PaimonLake
from s3_servers import Fault, FaultyProxy
from segment_lake import SegmentLake

from packstone.storage.stores import open_store

COMMITS = {"segments": "/Metadata/status/", "paimon": "/snapshot/snapshot-"}


@pytest.fixture
def broken(seaweed, use_s3):
    """The real server behind a proxy with faults."""
    proxy = FaultyProxy(seaweed)
    with proxy as server:
        yield proxy, use_s3(server)


def check_commit(proxy, table, packstone, fetch):
    """Compact with the faults that the proxy has; it succeeds, and the rows and the table are right."""
    words = ("--strategy", "full", "--set", "single-writer=true") if isinstance(fetch(), PaimonLake) else ()
    before = fetch()
    done = packstone("compact", table, *words, "--format", "json")
    assert done.code == 0, done.err
    after = fetch()
    assert done.json["status"] == "committed"
    assert proxy.faults[0].seen == proxy.faults[0].times
    assert list(after.problems()) == []
    return before, after


@pytest.mark.parametrize("how", ["hide", "cut", "refuse"])
def test_a_version_whose_answer_was_lost(broken, packstone, seaweed, tmp_path, how):
    """A segment table's version is published once, and the run knows that it is its own."""
    proxy, root = broken
    table, numbers = f"{root}/t", itertools.count()
    lake = SegmentLake(tmp_path / "t").create(SORT_COLUMNS="id")
    for first in range(0, 40, 10):
        lake.load([{"id": at, "v": "x"} for at in range(first, first + 10)])
    seaweed.send(lake.path, table)
    proxy.faults.append(Fault("PUT", COMMITS["segments"], how, times=2))
    before, after = check_commit(
        proxy, table, packstone, lambda: SegmentLake(seaweed.fetch(table, tmp_path / f"f{next(numbers)}"))
    )
    assert after.count() == before.count() == Counter({(at, "x"): 1 for at in range(40)})
    assert after.ids() == ["0.1"]
    assert after.versions()[-1] == before.versions()[-1] + 2  # registered, merged


@pytest.mark.parametrize("how", ["hide", "cut", "refuse"])
def test_a_snapshot_whose_answer_was_lost(broken, packstone, seaweed, tmp_path, how):
    """A Paimon table's snapshot is published once, and the run knows that it is its own."""
    proxy, root = broken
    table, numbers = f"{root}/t", itertools.count()
    lake = PaimonLake(tmp_path / "t").create()
    for first in (0, 5, 10):
        lake.append(dict.fromkeys(range(first, first + 10), first))
    seaweed.send(lake.path, table)
    proxy.faults.append(Fault("PUT", COMMITS["paimon"], how))
    before, after = check_commit(
        proxy, table, packstone, lambda: PaimonLake(seaweed.fetch(table, tmp_path / f"f{next(numbers)}"))
    )
    assert after.rows() == before.rows() == lake.rows()
    assert after.ids() == [1, 2, 3, 4]


@pytest.mark.soak
@pytest.mark.timeout(600)
def test_a_server_that_hangs(broken, packstone, seaweed, tmp_path):
    """A put that is done and never answered is given up after half a minute, looked for, and found."""
    proxy, root = broken
    table, numbers = f"{root}/t", itertools.count()
    lake = PaimonLake(tmp_path / "t").create()
    for first in (0, 5, 10):
        lake.append(dict.fromkeys(range(first, first + 10), first))
    seaweed.send(lake.path, table)
    proxy.faults.append(Fault("PUT", COMMITS["paimon"], "hang"))
    _, after = check_commit(
        proxy, table, packstone, lambda: PaimonLake(seaweed.fetch(table, tmp_path / f"f{next(numbers)}"))
    )
    assert (after.rows(), after.ids()) == (lake.rows(), [1, 2, 3, 4])


def test_a_store_that_goes_away_is_reported(broken, packstone, seaweed, tmp_path):
    """If the store refuses for good, the run fails with exit code 1 and a sentence, and the table is as it was."""
    proxy, root = broken
    table = f"{root}/t"
    lake = SegmentLake(tmp_path / "t").create(SORT_COLUMNS="id")
    for first in range(0, 40, 10):
        lake.load([{"id": at, "v": "x"} for at in range(first, first + 10)])
    seaweed.send(lake.path, table)
    proxy.faults.append(Fault("PUT", "/Fact/", "refuse", times=1000))
    done = packstone("compact", table)
    assert done.code == 1
    assert "503" in done.out + done.err
    found = SegmentLake(seaweed.fetch(table, tmp_path / "fetched"))
    assert (found.count(), found.problems(), found.ids()) == (lake.count(), [], ["0", "1", "2", "3"])
    assert open_store(table).stat(f"{table}/Fact/Segment_0.1") is None
