"""Fields of a newer Paimon go through us unharmed."""

import io as buffers
from dataclasses import replace
from itertools import count

import fastavro
import pytest
from paimon_scene import data_file

from packstone.errors import InvalidInputError
from packstone.rewrite.formats.avro_file import read_records, write_records
from packstone.storage.memory import MemoryFileIO
from packstone.tables.paimon.format.avro_schemas import DATA_FILE, MANIFEST, MANIFEST_LIST, UnknownField
from packstone.tables.paimon.format.data_file import EMPTY_ROW, FileKind, ManifestEntry
from packstone.tables.paimon.format.live_files import read_live_files
from packstone.tables.paimon.format.manifest import read_manifest, write_manifests
from packstone.tables.paimon.format.manifest_list import read_manifest_list, write_manifest_list
from packstone.tables.paimon.format.snapshot import Snapshot

NEW_FILE_FIELDS = [
    {"name": "_NEW_TIME", "type": ["null", {"type": "long", "logicalType": "timestamp-millis"}], "default": None},
    {"name": "_NEW_ROW", "type": {"type": "record", "name": "new", "fields": [{"name": "b", "type": "bytes"}]}},
]
NEW_VALUES = {"_NEW_TIME": 123, "_NEW_ROW": {"b": b"\x00\xff"}}


def entry(name, **other):
    """One entry."""
    return ManifestEntry(
        kind=FileKind.ADD, partition=EMPTY_ROW, bucket=0, total_buckets=1, file=data_file(name, **other)
    )


def write(io, entries, names="m"):
    """Write entries."""
    return write_manifests(io, "/t/manifest", entries, names=(f"{names}-{at}" for at in count()), partition_types=())


@pytest.fixture(name="io")
def store():
    """A table with a manifest m-0 of us, and new-0: the same as a newer Paimon would write it."""
    io = MemoryFileIO()
    io.make_dirs("/t/manifest")
    write(io, [entry("a"), entry("b")])
    file = DATA_FILE | {"fields": [*DATA_FILE["fields"], *NEW_FILE_FIELDS]}
    schema = MANIFEST | {"fields": [*MANIFEST["fields"][:-1], {"name": "_FILE", "type": file}]}
    records = [
        record | {"_FILE": record["_FILE"] | NEW_VALUES}
        for record in read_records(io.read_bytes("/t/manifest/m-0"), path="m")
    ]
    io.write_new("/t/manifest/new-0", write_records(schema, records, codec="zstd"))
    return io


def test_a_file_keeps_fields_that_we_do_not_know(io):
    """Read, written by us and read again: names, types with their logical types, and values are the same."""
    entries = list(read_manifest(io, "/t/manifest/new-0"))
    assert [field.name for field in entries[0].file.unknown] == ["_NEW_TIME", "_NEW_ROW"]
    upgraded = [replace(one, file=replace(one.file, level=5)) for one in entries]
    (meta,) = write(io, upgraded, "ours")
    data = io.read_bytes(f"/t/manifest/{meta.file_name}")
    found = [record["_FILE"] for record in read_records(data, path="p")]
    assert [{name: one[name] for name in NEW_VALUES} for one in found] == [NEW_VALUES, NEW_VALUES]
    assert [one["_LEVEL"] for one in found] == [5, 5]
    assert b"timestamp-millis" in data[data.index(b"_NEW_TIME") :]
    (again,) = write(io, list(read_manifest(io, f"/t/manifest/{meta.file_name}")), "again")  # and a second time
    second = read_records(io.read_bytes(f"/t/manifest/{again.file_name}"), path="p")
    assert [record["_FILE"] for record in second] == found


def test_files_with_and_without_new_fields_do_not_share_a_manifest(io):
    """Each manifest has one schema; the order of entries stays."""
    new, old = list(read_manifest(io, "/t/manifest/new-0")), [entry("c"), entry("d")]
    mixed = [old[0], *new, old[1]]
    metas = write(io, mixed, "mixed")
    assert [meta.num_added_files for meta in metas] == [1, 2, 1]
    again = [one for meta in metas for one in read_manifest(io, f"/t/manifest/{meta.file_name}")]
    assert [one.file.file_name for one in again] == ["c", "a", "b", "d"]
    assert [bool(one.file.unknown) for one in again] == [False, True, True, False]


def test_new_fields_do_not_disturb_other_readers(io):
    """A reader that knows our schema only still reads the manifest; lean reading skips them."""
    (meta,) = write(io, list(read_manifest(io, "/t/manifest/new-0")), "ours")
    data = io.read_bytes(f"/t/manifest/{meta.file_name}")
    plain = write_records(MANIFEST, [], codec="null")
    assert fastavro.reader(buffers.BytesIO(plain)).writer_schema["name"].endswith("record")
    found = fastavro.reader(buffers.BytesIO(data), MANIFEST)
    assert [record["_FILE"]["_FILE_NAME"] for record in found] == ["a", "b"]
    lean = list(read_manifest(io, f"/t/manifest/{meta.file_name}", lean=True))
    assert [one.file.file_name for one in lean] == ["a", "b"]


def test_live_files_of_a_newer_paimon_are_found(io):
    """Manifests of different schemas follow each other in one snapshot."""
    metas = [*write(io, [entry("z")], "first"), *write(io, list(read_manifest(io, "/t/manifest/new-0")), "second")]
    write_manifest_list(io, "/t/manifest", metas, name="base")
    write_manifest_list(io, "/t/manifest", [], name="delta")
    current = Snapshot(id=1, schema_id=0, base_manifest_list="base", delta_manifest_list="delta", commit_user="u",
                       commit_identifier=1, commit_kind="APPEND", time_millis=0)  # fmt: skip
    for lean in (False, True):
        (bucket,) = read_live_files(io, "/t", current, lean=lean)
        assert [file.file_name for file in bucket.files] == ["z", "a", "b"]


def test_a_line_of_a_manifest_list_keeps_them_too(io):
    """A list is written anew with every commit: what a newer writer says of its manifests must not vanish then."""
    schema = MANIFEST_LIST | {"fields": [*MANIFEST_LIST["fields"], {"name": "_NEW", "type": "string"}]}
    old = write(io, [entry("q")], "old")
    write_manifest_list(io, "/t/manifest", old, name="list-old")
    records = list(read_records(io.read_bytes("/t/manifest/list-old"), path="p"))
    io.write_new(
        "/t/manifest/list-new", write_records(schema, [one | {"_NEW": "kept"} for one in records], codec="null")
    )
    both = read_manifest_list(io, "/t/manifest/list-old") + read_manifest_list(io, "/t/manifest/list-new")
    write_manifest_list(io, "/t/manifest", both, name="list-both")
    found = list(read_records(io.read_bytes("/t/manifest/list-both"), path="p"))
    assert [one["_NEW"] for one in found] == [None, "kept"]
    assert read_manifest_list(io, "/t/manifest/list-both")[1].unknown[0].name == "_NEW"


def test_a_type_that_is_elsewhere_is_refused_not_lost(io):
    """A field whose type only has a name cannot be written on its own; better no commit than a loss."""
    strange = UnknownField(name="_NEW", avro_type='"defined_elsewhere"', value=b"\x00")
    with pytest.raises(InvalidInputError, match="_NEW of a newer Paimon"):
        write(io, [entry("x", unknown=(strange,))], "x")
