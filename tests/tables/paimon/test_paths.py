"""Where files stand, in Java's spelling and in pypaimon's."""

from datetime import date, datetime, time
from decimal import Decimal
from pathlib import Path

import pytest
from paimon_scene import data_file

from packstone.errors import CorruptionError
from packstone.storage.local import LocalFileIO
from packstone.storage.memory import MemoryFileIO
from packstone.tables.paimon.format.binary_row import encode_row
from packstone.tables.paimon.format.data_type import DataField, parse_data_type
from packstone.tables.paimon.format.live_files import read_live_files
from packstone.tables.paimon.format.paths import (
    DataFileNames,
    branch_path,
    bucket_folders,
    data_file_path,
    extra_file_paths,
    find_bucket_folder,
)
from packstone.tables.paimon.format.schema import TableSchema, read_latest_schema
from packstone.tables.paimon.format.snapshot import read_latest_snapshot

FIXTURES = Path(__file__).parents[2] / "testdata" / "paimon"


def folders(text, value, *, bucket=0, **options):
    """The folders of a bucket of a table that is partitioned by one column ``p``."""
    field = DataField(id=0, name="p", type=parse_data_type(text))
    schema = TableSchema(id=0, fields=(field,), partition_keys=("p",), options=tuple(options.items()))
    return bucket_folders("/t", schema, partition=encode_row([value], [field.type]), bucket=bucket)


@pytest.mark.parametrize(
    ("text", "value", "java", "cast"),
    [
        ("STRING", "a b", "a b", "a b"),
        ("STRING", "a/b:c=%d", "a%2Fb%3Ac%3D%25d", "a%2Fb%3Ac%3D%25d"),
        ("STRING", "\n{x}'\"", "%0A%7Bx%7D%27%22", "%0A%7Bx%7D%27%22"),
        ("STRING", "漢é", "漢é", "漢é"),
        ("STRING", "", "__DEFAULT_PARTITION__", "__DEFAULT_PARTITION__"),
        ("STRING", "  ", "__DEFAULT_PARTITION__", "__DEFAULT_PARTITION__"),
        ("INT", None, "__DEFAULT_PARTITION__", "__DEFAULT_PARTITION__"),
        ("INT", -5, "-5", "-5"),
        ("BOOLEAN", True, "true", "true"),
        ("DATE", date(2024, 1, 1), "19723", "2024-01-01"),
        ("TIME(3)", time(1, 2, 3, 40_000), "3723040", "01%3A02%3A03.04"),
        ("TIMESTAMP(3)", datetime(2024, 1, 1), "2024-01-01T00%3A00", "2024-01-01 00%3A00%3A00.000"),  # noqa: DTZ001
        ("TIMESTAMP(6)", datetime(2024, 1, 1, 0, 0, 5), "2024-01-01T00%3A00%3A05", "2024-01-01 00%3A00%3A05.000000"),  # noqa: DTZ001
        ("TIMESTAMP(9)", 1, "1970-01-01T00%3A00%3A00.000000001", "1970-01-01 00%3A00%3A00.000000001"),
        ("TIMESTAMP(6)", 500_000, "1970-01-01T00%3A00%3A00.500", "1970-01-01 00%3A00%3A00.500000"),
        ("DECIMAL(20, 10)", Decimal("0.0000000001"), "0.0000000001", "0.0000000001"),
        ("DOUBLE", 1e7, "1.0E7", "1.0E7"),
        ("DOUBLE", 0.1, "0.1", "0.1"),
        ("DOUBLE", -0.0, "-0.0", "-0.0"),
        ("FLOAT", 0.10000000149011612, "0.1", "0.1"),
        ("DOUBLE", float("nan"), "NaN", "NaN"),
    ],
)
def test_a_partition_is_spelled_as_java_spells_it(text, value, java, cast):
    """Java's legacy names (the default) and its casts, escaped."""
    assert folders(text, value)[0] == f"/t/p={java}/bucket-0"
    assert folders(text, value, **{"partition.legacy-name": "false"})[0] == f"/t/p={cast}/bucket-0"


@pytest.mark.parametrize(
    ("text", "value", "python"),
    [
        ("DATE", date(2024, 1, 1), "2024-01-01"),
        ("BOOLEAN", True, "True"),
        ("TIMESTAMP(3)", datetime(2024, 1, 1), "2024-01-01 00:00:00"),  # noqa: DTZ001
        ("STRING", "a:b", "a:b"),
        ("TIME(3)", time(1, 2, 3), "01:02:03"),
    ],
)
def test_pypaimon_spells_some_values_differently(text, value, python):
    """Its folder is the second candidate."""
    assert folders(text, value)[1:] == (f"/t/p={python}/bucket-0",)


@pytest.mark.parametrize(("text", "value"), [("STRING", "2024-01-01"), ("INT", 5), ("BIGINT", None)])
def test_where_both_agree_there_is_one_folder(text, value):
    """Then nobody has to look."""
    assert len(folders(text, value)) == 1


def test_options_move_folders():
    """The default name, a data directory and the postponed bucket."""
    assert folders("INT", None, **{"partition.default-name": "none"}) == ("/t/p=none/bucket-0",)
    assert folders("INT", 1, **{"data-file.path-directory": "data"}) == ("/t/data/p=1/bucket-0",)
    assert folders("INT", 1, bucket=-2) == ("/t/p=1/bucket-postpone",)


def test_the_folder_that_holds_the_file_is_found():
    """Of two spellings the one is taken where the file is; neither is a corruption."""
    io = MemoryFileIO()
    candidates = folders("DATE", date(2024, 1, 1))
    io.make_dirs(candidates[1])
    with pytest.raises(CorruptionError, match="f is in none of"):
        find_bucket_folder(io, candidates, data_file("f"))
    io.write_new(f"{candidates[1]}/f", b"")
    assert find_bucket_folder(io, candidates, data_file("f")) == candidates[1]
    assert find_bucket_folder(io, ("/only",), data_file("f")) == "/only"


def test_external_paths_win_and_side_files_stand_beside():
    """A file with a path of its own is there, and so are its extra files."""
    plain, external = (
        data_file("f", extra_files=("f.index",)),
        data_file("f", external_path="s3://b/x/f", extra_files=("i",)),
    )
    assert (data_file_path("/b", plain), extra_file_paths("/b", plain)) == ("/b/f", ("/b/f.index",))
    assert (data_file_path("/b", external), extra_file_paths("/b", external)) == ("s3://b/x/f", ("s3://b/x/i",))


def test_a_data_file_is_named_as_the_table_says():
    """Its prefix, id and number; its codec only if the table asks for it."""
    names = DataFileNames()
    assert names.name(3, uuid="u", file_format="parquet", compression="zstd") == "data-u-3.parquet"
    codec = DataFileNames(prefix="x-", include_compression=True)
    assert codec.name(0, uuid="u", file_format="orc", compression="zstd") == "x-u-0.zstd.orc"


def test_the_main_branch_is_the_table():
    """Other branches have a folder of their own."""
    assert (branch_path("/t", "main"), branch_path("/t", "b1")) == ("/t", "/t/branch/branch-b1")


@pytest.mark.parametrize("table", sorted(FIXTURES.glob("*/table")), ids=lambda path: path.parent.name)
def test_files_of_real_tables_are_where_we_look(table):
    """Every live file of every real table is found in its folder."""
    io = LocalFileIO()
    schema, current = read_latest_schema(io, str(table)), read_latest_snapshot(io, str(table))
    for bucket in read_live_files(io, str(table), current):
        candidates = bucket_folders(str(table), schema, partition=bucket.partition, bucket=bucket.bucket)
        for file in bucket.files:
            folder = find_bucket_folder(io, candidates, file)
            assert io.stat(data_file_path(folder, file)).size_bytes == file.file_size
