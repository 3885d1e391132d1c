"""Manifests and manifest lists, of every version and writer."""

import json
from dataclasses import replace
from itertools import count
from pathlib import Path

import fastavro
import pytest
from paimon_scene import data_file

from packstone.errors import CorruptionError, InvalidInputError
from packstone.rewrite.formats.avro_file import read_header, write_records
from packstone.storage.local import LocalFileIO
from packstone.storage.memory import MemoryFileIO
from packstone.tables.paimon.format.avro_schemas import INDEX_MANIFEST, MANIFEST, MANIFEST_LIST
from packstone.tables.paimon.format.binary_row import decode_row, encode_row
from packstone.tables.paimon.format.data_file import EMPTY_ROW, FileKind, ManifestEntry, SimpleStats
from packstone.tables.paimon.format.data_type import parse_data_type
from packstone.tables.paimon.format.lean_manifest import read_buckets
from packstone.tables.paimon.format.manifest import UNREAD_STATS, read_manifest, write_manifests
from packstone.tables.paimon.format.manifest_list import read_all_manifests, read_manifest_list, write_manifest_list
from packstone.tables.paimon.format.snapshot import list_snapshot_ids, read_snapshot

FIXTURES = Path(__file__).parents[2] / "testdata" / "paimon"
TABLES = sorted(FIXTURES.glob("*/table"))
PARTITION = (parse_data_type("STRING"), parse_data_type("INT"))


def memory():
    """A store with a manifest folder."""
    io = MemoryFileIO()
    io.make_dirs("/m")
    return io


def entry(name, *, kind=FileKind.ADD, partition=("a", 1), bucket=0, total_buckets=4, **other):
    """One entry."""
    return ManifestEntry(
        kind=kind,
        partition=encode_row(partition, PARTITION),
        bucket=bucket,
        total_buckets=total_buckets,
        file=data_file(name, **other),
    )


def write(io, entries, **options):
    """Write entries under the names m-0, m-1 and so on."""
    names = (f"m-{number}" for number in count())
    return write_manifests(io, "/m", entries, names=names, partition_types=PARTITION, **options)


def read(io, metas, **options):
    """All entries of manifests."""
    return [one for meta in metas for one in read_manifest(io, f"/m/{meta.file_name}", **options)]


@pytest.mark.parametrize("table", TABLES, ids=lambda path: path.parent.name)
def test_entries_of_real_tables_survive_a_rewrite(table):
    """What Java and pypaimon wrote is read, written by us and read again without a difference."""
    io, target, found = LocalFileIO(), memory(), 0
    schema_types = ()
    for number in list_snapshot_ids(io, str(table)):
        metas = read_all_manifests(io, str(table), read_snapshot(io, str(table), number))
        entries = [one for meta in metas for one in read_manifest(io, f"{table}/manifest/{meta.file_name}")]
        assert len(entries) == sum(meta.num_added_files + meta.num_deleted_files for meta in metas)
        names = (f"{number}-{at}" for at in count())
        plain = [replace(one, partition=EMPTY_ROW) for one in entries]
        written = write_manifests(target, "/m", plain, names=names, partition_types=schema_types)
        assert read(target, written) == plain
        found += len(entries)
    assert found > 0


@pytest.mark.parametrize("table", TABLES, ids=lambda path: path.parent.name)
def test_manifest_lists_of_real_tables_survive_a_rewrite(table):
    """Lines of a list that we carry over say the same as before."""
    io, target = LocalFileIO(), memory()
    for number in list_snapshot_ids(io, str(table)):
        metas = read_all_manifests(io, str(table), read_snapshot(io, str(table), number))
        name, size = write_manifest_list(target, "/m", metas, name=f"list-{number}")
        assert read_manifest_list(target, f"/m/{name}") == metas
        assert target.stat(f"/m/{name}").size_bytes == size


def test_our_summary_of_a_manifest_is_java_s():
    """Counts, spans and partition statistics that we compute equal those that Java wrote for the same entries."""
    io, compared = LocalFileIO(), 0
    for table in (FIXTURES / "java_levels" / "table", FIXTURES / "java_compacted" / "table"):
        for number in list_snapshot_ids(io, str(table)):
            for meta in read_all_manifests(io, str(table), read_snapshot(io, str(table), number)):
                entries = list(read_manifest(io, f"{table}/manifest/{meta.file_name}"))
                (ours,) = write_manifests(memory(), "/m", entries, names=iter(["m"]), partition_types=())
                same = replace(ours, file_name=meta.file_name, file_size=meta.file_size, total_buckets=None)
                assert same == replace(meta, total_buckets=None)
                compared += 1
    assert compared > 10


@pytest.mark.parametrize(
    ("pattern", "schema"),
    [("manifest-[0-9a-f]*", MANIFEST), ("manifest-list-*", MANIFEST_LIST), ("index-manifest-*", INDEX_MANIFEST)],
)
def test_our_avro_schemas_extend_java_s(pattern, schema):
    """Names, order, types, unions, defaults and record names are Java's; we only append fields of newer versions."""
    ours = fastavro.parse_schema(json.loads(json.dumps(schema)))
    paths = sorted(FIXTURES.glob(f"java_*/table/manifest/{pattern}"))
    assert paths
    for path in paths:
        java = fastavro.parse_schema(json.loads(read_header(path.read_bytes(), path=str(path)).schema))
        assert begins_with(ours, java), f"{path}\n{ours}\n{java}"


def begins_with(ours, java):
    """Whether a schema equals another up to fields that are appended to its records."""
    if isinstance(java, dict) and java.get("type") == "record":
        pairs = zip(ours["fields"], java["fields"], strict=False)
        more = ours["fields"][len(java["fields"]) :]
        return (
            ours["name"] == java["name"]
            and all(one["name"] == two["name"] and begins_with(one["type"], two["type"]) for one, two in pairs)
            and all(one.get("default", "-") == two.get("default", "-") for one, two in pairs)
            and all(field["type"][0] == "null" and field["default"] is None for field in more)
        )
    if isinstance(java, dict) and java.get("type") == "array":
        return begins_with(ours["items"], java["items"])
    if isinstance(java, list):
        return len(ours) == len(java) and all(begins_with(one, two) for one, two in zip(ours, java, strict=True))
    return ours == java


def test_an_old_manifest_has_fields_missing():
    """A manifest of Paimon 0.5 has no delete count, index, source or later fields: they are unknown, not zero."""
    known = {"_FILE_NAME", "_FILE_SIZE", "_ROW_COUNT", "_MIN_KEY", "_MAX_KEY", "_KEY_STATS", "_VALUE_STATS",
             "_MIN_SEQUENCE_NUMBER", "_MAX_SEQUENCE_NUMBER", "_SCHEMA_ID", "_LEVEL", "_EXTRA_FILES"}  # fmt: skip
    io = memory()
    io.write_new("/m/old", write_records(without(MANIFEST, known), [old_record()], codec="snappy"))
    (found,) = read_manifest(io, "/m/old")
    assert found.file.delete_row_count is found.file.creation_time_ms is found.file.file_source is None
    assert found.file.value_stats_cols is found.file.external_path is found.file.write_cols is None
    assert found.file.file_name == "f"


def without(schema, known):
    """The manifest schema with a file that has only known fields."""
    fields = [
        field | {"type": field["type"] | {"fields": [one for one in field["type"]["fields"] if one["name"] in known]}}
        if field["name"] == "_FILE"
        else field
        for field in schema["fields"]
    ]
    return schema | {"fields": fields}


def old_record():
    """One record of an old writer."""
    stats = {"_MIN_VALUES": EMPTY_ROW, "_MAX_VALUES": EMPTY_ROW, "_NULL_COUNTS": None}
    file = {"_FILE_NAME": "f", "_FILE_SIZE": 1, "_ROW_COUNT": 2, "_MIN_KEY": b"", "_MAX_KEY": b"", "_KEY_STATS": stats,
            "_VALUE_STATS": stats, "_MIN_SEQUENCE_NUMBER": 3, "_MAX_SEQUENCE_NUMBER": 4, "_SCHEMA_ID": 0, "_LEVEL": 0,
            "_EXTRA_FILES": []}  # fmt: skip
    return {"_VERSION": 2, "_KIND": 0, "_PARTITION": EMPTY_ROW, "_BUCKET": 0, "_TOTAL_BUCKETS": 1, "_FILE": file}


def test_an_old_manifest_list_has_fields_missing():
    """A list of a version before buckets and levels were noted is read; what it does not say is unknown."""
    old = MANIFEST_LIST | {"fields": MANIFEST_LIST["fields"][:7]}
    stats = {"_MIN_VALUES": EMPTY_ROW, "_MAX_VALUES": EMPTY_ROW, "_NULL_COUNTS": [None, 3]}
    record = {"_VERSION": 2, "_FILE_NAME": "m", "_FILE_SIZE": 1, "_NUM_ADDED_FILES": 2, "_NUM_DELETED_FILES": 3,
              "_PARTITION_STATS": stats, "_SCHEMA_ID": 4}  # fmt: skip
    io = memory()
    io.write_new("/m/list", write_records(old, [record], codec="deflate"))
    (meta,) = read_manifest_list(io, "/m/list")
    assert (meta.min_bucket, meta.max_level, meta.min_row_id, meta.extra_files) == (None, None, None, None)
    assert meta.partition_stats.null_counts == (None, 3)


@pytest.mark.parametrize("codec", ["zstd", "snappy", "deflate", "null"])
def test_all_fields_come_back(codec):
    """Every field of an entry is written and read, in each codec."""
    full = entry(
        "f",
        kind=FileKind.DELETE,
        level=5,
        bucket=3,
        extra_files=("f.index", "g"),
        embedded_file_index=b"\x00\x01",
        external_path="s3://x/f",
        first_row_id=7,
        write_cols=("a",),
        write_cols_sequences=(1, 2),
    )
    bare = replace(full, file=replace(full.file, creation_time_ms=None, delete_row_count=None, file_source=None,
                                      value_stats_cols=None, first_row_id=None, write_cols=None, extra_files=(),
                                      value_stats=SimpleStats(null_counts=(None, 5)),
                                      key_stats=SimpleStats(null_counts=None)))  # fmt: skip
    io = memory()
    assert read(io, write(io, [full, bare], codec=codec)) == [full, bare]


def test_manifests_roll_at_the_target_size_and_keep_the_order():
    """The size is looked at every thousand entries; together the manifests hold all entries in order."""
    entries = [entry(f"file-{number**7}", bucket=number % 3) for number in range(3500)]
    io = memory()
    metas = write(io, entries, target_bytes=4_000)
    assert [meta.num_added_files for meta in metas] == [1000, 1000, 1000, 500]
    assert [meta.file_name for meta in metas] == ["m-0", "m-1", "m-2", "m-3"]
    assert read(io, metas) == entries
    assert all(io.stat(f"/m/{meta.file_name}").size_bytes == meta.file_size for meta in metas)


def test_nothing_is_written_for_no_entries():
    """A manifest without entries would only cost a read."""
    io = memory()
    assert write(io, []) == ()
    assert list(io.list_dir("/m")) == []


def test_a_summary_spans_its_entries():
    """Partition statistics leave nulls out of smallest and largest and count them; mixed bucket counts are unknown."""
    (meta,) = write(
        memory(),
        [
            entry("a", partition=("b", 5), bucket=2, level=3),
            entry("b", partition=(None, -1), bucket=1, level=0, kind=FileKind.DELETE),
            entry("c", partition=("a", None), bucket=7, level=5, total_buckets=8),
        ],
    )
    assert (meta.num_added_files, meta.num_deleted_files) == (2, 1)
    assert decode_row(meta.partition_stats.min_values, PARTITION) == ("a", -1)
    assert decode_row(meta.partition_stats.max_values, PARTITION) == ("b", 5)
    assert meta.partition_stats.null_counts == (1, 1)
    assert (meta.min_bucket, meta.max_bucket, meta.min_level, meta.max_level) == (1, 7, 0, 5)
    assert meta.total_buckets is None


def test_row_ids_are_noted_only_if_all_have_them():
    """The span of row ids covers the last row; one file without them makes it unknown."""
    with_ids = [entry("a", first_row_id=10), entry("b", first_row_id=50)]
    (meta,) = write(memory(), with_ids)
    assert (meta.min_row_id, meta.max_row_id) == (10, 59)
    (mixed,) = write(memory(), [*with_ids, entry("c")])
    assert (mixed.min_row_id, mixed.max_row_id) == (None, None)


def test_lean_entries_are_the_same_but_for_statistics():
    """Leaving statistics out changes nothing else."""
    io = memory()
    metas = write(io, [entry(f"f{number}", bucket=number, extra_files=("x",)) for number in range(5)])
    for lean, full in zip(read(io, metas, lean=True), read(io, metas), strict=True):
        file = replace(full.file, key_stats=UNREAD_STATS, value_stats=UNREAD_STATS, value_stats_cols=None)
        assert lean == replace(full, file=file)


def test_lean_entries_are_never_written_back():
    """A file whose statistics were not read must not lose them in a new manifest."""
    io = memory()
    metas = write(io, [entry("f")])
    with pytest.raises(InvalidInputError, match="f was read without its statistics"):
        write(memory(), read(io, metas, lean=True))


def test_only_wanted_buckets_are_yielded():
    """The predicate sees partition and bucket of each entry."""
    io = memory()
    metas = write(io, [entry(f"f{number}", partition=(str(number % 2), 0), bucket=number) for number in range(4)])
    wanted = encode_row(("1", 0), PARTITION)
    found = read(io, metas, wanted=lambda partition, bucket: partition == wanted and bucket == 3)
    assert [one.file.file_name for one in found] == ["f3"]
    ((path, keys),) = read_buckets(io, ["/m/m-0"])
    assert (path, keys[3]) == ("/m/m-0", (wanted, 3))


def test_a_missing_manifest_is_a_corruption():
    """A snapshot whose files are gone is damaged; the file is named."""
    with pytest.raises(CorruptionError, match="/m/gone is missing"):
        list(read_manifest(memory(), "/m/gone"))
    with pytest.raises(CorruptionError, match="/m/gone is missing"):
        read_manifest_list(memory(), "/m/gone")


def test_another_format_version_is_refused():
    """A manifest that says it is of another format is not guessed at."""
    io = memory()
    io.write_new("/m/x", write_records(MANIFEST | without(MANIFEST, set(old_record()["_FILE"])),
                                       [old_record() | {"_VERSION": 1}], codec="null"))  # fmt: skip
    with pytest.raises(InvalidInputError, match="/m/x has format 1"):
        list(read_manifest(io, "/m/x"))


def test_a_file_of_another_kind_is_a_corruption():
    """A manifest list is not a manifest."""
    io = memory()
    write_manifest_list(io, "/m", write(io, [entry("f")]), name="list")
    with pytest.raises(CorruptionError, match="/m/list"):
        list(read_manifest(io, "/m/list"))
    with pytest.raises(CorruptionError, match="/m/m-0"):
        read_manifest_list(io, "/m/m-0")
