"""Schema files of every version."""

import json
from pathlib import Path

import pytest

from packstone.errors import CorruptionError, InvalidInputError
from packstone.storage.local import LocalFileIO
from packstone.storage.memory import MemoryFileIO
from packstone.tables.paimon.format.schema import list_schema_ids, parse_schema, read_latest_schema, read_schema

FIXTURES = Path(__file__).parents[2] / "testdata" / "paimon"
SCHEMA = {
    "version": 3,
    "id": 0,
    "fields": [
        {"id": 0, "name": "dt", "type": "STRING NOT NULL"},
        {"id": 1, "name": "id", "type": "BIGINT NOT NULL"},
        {"id": 2, "name": "v", "type": "INT", "description": "a value"},
    ],
    "highestFieldId": 2,
    "partitionKeys": ["dt"],
    "primaryKeys": ["dt", "id"],
    "options": {"bucket": "2"},
    "timeMillis": 5,
}


def table(*schemas):
    """A table in memory with these schemas."""
    io = MemoryFileIO()
    io.make_dirs("/t/schema")
    for content in schemas:
        io.write_new(f"/t/schema/schema-{content['id']}", json.dumps(content).encode())
    return io


def test_the_key_without_partition_columns_is_what_files_are_sorted_by():
    """Partition columns are left out of the key of a file; the system columns follow it."""
    schema = read_schema(table(SCHEMA), "/t", 0)
    assert schema.trimmed_primary_keys == ("id",)
    assert [field.name for field in schema.file_fields] == [
        "_KEY_id",
        "_SEQUENCE_NUMBER",
        "_VALUE_KIND",
        "dt",
        "id",
        "v",
    ]
    assert [field.id for field in schema.file_fields] == [1073741824, 2147483646, 2147483645, 0, 1, 2]
    assert [field.name for field in schema.partition_fields] == ["dt"]
    assert schema.option("bucket") == "2"
    assert schema.option("nothing") is None


def test_an_append_table_has_only_its_own_columns():
    """Without a primary key a file holds the columns of the table and nothing else."""
    schema = read_schema(table(SCHEMA | {"primaryKeys": []}), "/t", 0)
    assert [field.name for field in schema.file_fields] == ["dt", "id", "v"]


def test_the_arrow_schema_of_a_file_says_what_is_never_null():
    """Key and system columns are not nullable in the Arrow schema."""
    arrow = read_schema(table(SCHEMA), "/t", 0).arrow_file_schema
    assert [field.nullable for field in arrow] == [False, False, False, False, False, True]


@pytest.mark.parametrize(
    ("version", "bucket", "file_format"), [(None, "1", "orc"), (1, "1", "orc"), (2, None, "orc"), (3, None, None)]
)
def test_old_schemas_keep_the_defaults_of_their_time(version, bucket, file_format):
    """Paimon 0.7 had one bucket where none was given, and 0.8 wrote ORC; a table keeps that for ever."""
    content = SCHEMA | {"options": {}, "version": version}
    if version is None:
        del content["version"]
    schema = read_schema(table(content), "/t", 0)
    assert (schema.option("bucket"), schema.option("file.format")) == (bucket, file_format)


def test_the_latest_schema_is_the_one_with_the_highest_number():
    """Numbers are compared as numbers, and other files in the folder are no schemas."""
    io = table(*(SCHEMA | {"id": number} for number in (2, 10, 9)))
    io.write_new("/t/schema/.schema-11.tmp", b"")
    assert list_schema_ids(io, "/t") == (2, 9, 10)
    assert read_latest_schema(io, "/t").id == 10


def test_no_table_is_reported_in_one_sentence():
    """A folder without schemas is not a Paimon table."""
    with pytest.raises(InvalidInputError, match="/nothing is not a Paimon table"):
        read_latest_schema(MemoryFileIO(), "/nothing")


@pytest.mark.parametrize("data", [b"{", b"[]", b"{}", b'{"id": 1, "fields": [{}]}', b"\xff"])
def test_a_damaged_schema_is_named(data):
    """A file that is not a schema is a corruption of that file."""
    with pytest.raises(CorruptionError, match="/t/schema/schema-1 is not a Paimon schema"):
        parse_schema(data, path="/t/schema/schema-1")


def test_a_schema_of_a_newer_paimon_is_refused_by_its_type():
    """A column of a type that we do not know is not corruption."""
    content = SCHEMA | {"fields": [{"id": 0, "name": "g", "type": "GEOMETRY('x')"}]}
    with pytest.raises(InvalidInputError, match=r"schema-0.*GEOMETRY"):
        read_schema(table(content), "/t", 0)


def test_a_missing_schema_is_a_corruption():
    """A file that a manifest or snapshot refers to must be there."""
    with pytest.raises(CorruptionError, match="/t/schema/schema-4 is missing"):
        read_schema(table(SCHEMA), "/t", 4)


@pytest.mark.parametrize("path", sorted(FIXTURES.glob("*/table")), ids=lambda path: path.parent.name)
def test_schemas_of_real_tables_are_read(path):
    """Every schema that Java or pypaimon wrote is read."""
    io = LocalFileIO()
    ids = list_schema_ids(io, str(path))
    assert [read_schema(io, str(path), number).id for number in ids] == list(ids) != []
