"""Values of a scan: filters that travel, splits of about the same size, caches with limits."""

import random
from decimal import Decimal

import pyarrow as pa
import pytest

from packstone.errors import InvalidInputError
from packstone.query.filter.expression import FALSE, NULL, TRUE, Compare, Not, Op, Unknown, literal
from packstone.query.filter.parse_filter import parse_filter
from packstone.query.filter.resolve import resolve
from packstone.query.scan.caches import ScanCaches, process_caches
from packstone.query.scan.plan import ScanFile, Split, group_by_host, split_files
from packstone.query.scan.request import pack_filter, unpack_filter

SCHEMA = pa.schema([
    ("a", pa.int8()), ("x", pa.float32()), ("s", pa.string()), ("y", pa.binary()), ("c", pa.decimal128(30, 4)),
    ("ts", pa.timestamp("us", "UTC")), ("d", pa.date32()), ("b", pa.bool_()),
])  # fmt: skip


@pytest.mark.parametrize("where", [
    "a = 5", "NOT (a <> 5 OR x > 1.5D)", "x IN (CAST('NaN' AS DOUBLE), -0.0D, 2)", "s LIKE 'it\\'s%'", "s IS NOT NULL",
    "y = X'00ff' AND c < 12345678901234567890.1234", "ts >= TIMESTAMP '1969-12-31 23:59:59.999999Z'",
    "d NOT IN (DATE '2024-02-29', DATE '9999-12-31')", "b = TRUE OR upper(s) = 'A'", "a < 300", "a = 3.5", "TRUE",
])  # fmt: skip
def test_a_filter_travels_as_it_is(where):
    """What comes back has the same nodes with values of the same types."""
    expression = resolve(parse_filter(where), SCHEMA)
    assert unpack_filter(pack_filter(expression)) == expression
    assert str(unpack_filter(pack_filter(Not(part=expression)))) == str(Not(part=expression))


def test_constants_and_what_only_spark_knows_travel_too():
    """Nothing is left behind on the way."""
    for node in (TRUE, FALSE, NULL, Unknown(text="f(a)", columns=("a",))):
        assert unpack_filter(pack_filter(node)) == node


def test_an_unresolved_filter_does_not_travel():
    """Its values have no types yet, and executors know no schema."""
    with pytest.raises(InvalidInputError, match="resolved"):
        pack_filter(Compare(column="a", op=Op.EQ, literal=literal(Decimal(5))))
    with pytest.raises(InvalidInputError, match="newer"):
        unpack_filter('["near","a"]')


def file_of(sizes, name="f"):
    """A file with row groups of these sizes, every other one of which must match."""
    groups = tuple(range(len(sizes)))
    return ScanFile(
        path=name, size_bytes=sum(sizes), row_groups=groups, row_counts=(10,) * len(sizes), must_match=groups[::2],
        read_bytes=sum(sizes),
    )  # fmt: skip


def whole(name, size_bytes):
    """A file of one row group."""
    return file_of((size_bytes,), name)


def test_hosts_read_what_they_store():
    """The host with the fewest candidates chooses first, up to its share, as CarbonData distributes blocks."""
    files = [whole(name, size_bytes) for name, size_bytes in (("a", 4), ("b", 3), ("c", 3), ("d", 2))]
    blocks = {"a": {"x": 4, "y": 4}, "b": {"x": 3}, "c": {"x": 3, "y": 3}, "d": {"y": 2}}
    placed = group_by_host([Split(schema="", files=tuple(files), rows=40, read_bytes=12)], blocks)
    assert {one.hosts[0]: sorted(one.paths) for one in placed} == {"x": ["b", "c"], "y": ["a", "d"]}
    assert [(one.rows, one.read_bytes) for one in placed] == [(20, 6), (20, 6)]


@pytest.mark.parametrize("seed", range(10))
def test_placing_reads_every_file_once_and_locally(seed):
    """Random replicas on five hosts: no file is lost or read twice, each is read where it is stored, by shares."""
    rng = random.Random(seed)
    hosts = [f"node{at}" for at in range(5)]
    files = [whole(f"f{at}", rng.randrange(1, 1 << 24)) for at in range(rng.choice([3, 60, 200]))]
    replicas = rng.choice([1, 3])
    blocks = {one.path: dict.fromkeys(rng.sample(hosts, replicas), one.size_bytes) for one in files}
    lost = {one.path for one in files if rng.randrange(10) == 0}
    known = {path: found for path, found in blocks.items() if path not in lost}
    groups = split_files(files, group_bytes=[[one.size_bytes] for one in files], parallelism=10)
    splits = [Split(schema="", files=group, read_bytes=sum(one.read_bytes for one in group)) for group in groups]
    placed = group_by_host(splits, known)
    assert sorted(file.path for one in placed for file in one.files) == sorted(one.path for one in files)
    assert all(one.hosts[0] in known[path] for one in placed for path in one.paths if path not in lost)
    assert all(len(one.hosts) <= 3 for one in placed)
    load = {host: sum(one.read_bytes for one in placed if one.hosts[0] == host) for host in hosts}
    if replicas == 3 and len(files) > 50:
        assert max(load.values()) <= sum(load.values()) / 5 + max(one.size_bytes for one in files)


def test_without_known_hosts_there_are_none():
    """A store that does not tell: the files stay together, and any host may read them."""
    (placed,) = group_by_host([Split(schema="", files=(whole("a", 4), whole("b", 3)), rows=20, read_bytes=7)], {})
    assert (placed.hosts, placed.rows, sorted(placed.paths)) == ((), 20, ["a", "b"])


@pytest.mark.parametrize("seed", range(10))
def test_every_row_group_is_in_one_split(seed):
    """Whatever the sizes, nothing is lost or read twice, and no split is above the limit unless it cannot be cut."""
    rng = random.Random(seed)
    sizes = {f"f{at}": [rng.randrange(1, 60) for _ in range(rng.randrange(1, 6))] for at in range(rng.randrange(1, 12))}
    files = [file_of(some, name) for name, some in sizes.items()]
    splits = split_files(
        files, group_bytes=list(sizes.values()), parallelism=rng.randrange(1, 5), max_split_bytes=100, open_cost_bytes=7
    )
    read = [(file.path, group) for split in splits for file in split for group in file.row_groups]
    assert sorted(read) == sorted((name, at) for name, some in sizes.items() for at in range(len(some)))
    for split in splits:
        groups = sum(len(file.row_groups) for file in split)
        assert groups == 1 or sum(file.read_bytes for file in split) <= 100
        assert all(file.read_bytes == sum(sizes[file.path][at] for at in file.row_groups) for file in split)
        assert all(set(file.must_match) == {at for at in file.row_groups if at % 2 == 0} for file in split)


def test_a_small_scan_is_dealt_to_all_tasks_but_not_into_crumbs():
    """Each file costs its opening, so two tasks share four files, and a hundred tasks do not get a split each."""
    files = [file_of([1000], f"f{at}") for at in range(4)]
    sizes = [[1000]] * 4
    assert len(split_files(files, group_bytes=sizes, parallelism=2, open_cost_bytes=10)) == 2
    assert len(split_files(files, group_bytes=sizes, parallelism=100, open_cost_bytes=5000)) == 4
    assert split_files([], group_bytes=[]) == ()


@pytest.mark.parametrize("tasks", [2, 3, 4])
def test_no_task_waits_for_another(tasks):
    """There are as many splits as tasks, not one more for what is left over, and they are of about one size."""
    sizes = [[size] for size in (900, 850, 800, 800, 750, 700, 650, 600, 50, 40)]
    files = [file_of(some, f"f{at}") for at, some in enumerate(sizes)]
    splits = split_files(files, group_bytes=sizes, parallelism=tasks, open_cost_bytes=10)
    bytes_of = [sum(file.read_bytes for file in split) for split in splits]
    assert len(splits) == tasks
    assert max(bytes_of) < 1.5 * min(bytes_of)


def test_caches_have_limits_of_their_own(monkeypatch):
    """Limits come from the environment or from the caller; a wrong one names its variable."""
    caches = ScanCaches.make({"footer": 10})
    limits = {name: stats.limit_bytes for name, stats in caches.stats().items()}
    assert limits == {"index": 512 << 20, "footer": 10, "dictionary": 64 << 20}
    assert caches.footer.get_or_load("k", lambda: "value", lambda _: 11) == "value"
    assert caches.stats()["footer"].refused == 1
    caches.index.get_or_load("k", lambda: "value", lambda _: 11)
    caches.clear()
    assert caches.stats()["index"].entries == 0
    process_caches.cache_clear()
    monkeypatch.setenv("PACKSTONE_FOOTER_CACHE", "much")
    with pytest.raises(InvalidInputError, match="PACKSTONE_FOOTER_CACHE"):
        process_caches()
    monkeypatch.setenv("PACKSTONE_FOOTER_CACHE", "3MB")
    assert process_caches().stats()["footer"].limit_bytes == 3 << 20
    process_caches.cache_clear()
