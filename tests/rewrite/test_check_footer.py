"""A footer that contradicts itself is refused by name before PyArrow sees it: PyArrow would end the process."""

import io
import random
import struct

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from packstone.errors import UnfaithfulError, UnreadableFileError
from packstone.rewrite.formats.parquet_checks import check_footer
from packstone.rewrite.formats.parquet_footer import open_parquet
from packstone.rewrite.formats.parquet_thrift import (
    BINARY,
    I32,
    I64,
    LIST,
    STRUCT,
    ThriftList,
    read_struct,
    write_struct,
)
from packstone.storage.local import LocalFileIO


def parquet_bytes(**options) -> bytes:
    """A file with a number, a string, a fixed binary and a list."""
    table = pa.table({
        "i": pa.array([1, 2, None], pa.int64()),
        "s": ["a", None, "c"],
        "x": pa.array([b"ab", b"cd", None], pa.binary(2)),
        "l": [[1], [], [2, 3]],
    })  # fmt: skip
    out = io.BytesIO()
    pq.write_table(table, out, **options)
    return out.getvalue()


def with_footer(edit) -> bytes:
    """The file with its footer changed by a function."""
    data = parquet_bytes()
    length = int.from_bytes(data[-8:-4], "little")
    footer, _ = read_struct(data[-8 - length : -8])
    edit(footer)
    written = write_struct(footer)
    return data[: -8 - length] + written + struct.pack("<I", len(written)) + b"PAR1"


def chunk(footer, leaf):
    """The metadata of a column of the first row group."""
    return footer[4][1].items[0][1][1].items[leaf][3][1]


def set_chunk(leaf, field, value):
    """Set a field of a column chunk's metadata, in the order of the fields."""

    def edit(footer):
        metadata = chunk(footer, leaf)
        metadata[field] = value
        for number in sorted(metadata):
            metadata[number] = metadata.pop(number)

    return edit


def set_statistic(leaf, value):
    """Set the greatest value of a column chunk."""
    return lambda footer: chunk(footer, leaf)[12][1].update({5: (BINARY, value)})


def set_in_schema(element, field, value):
    """Set a field of a schema element."""
    return lambda footer: footer[2][1].items[element].update({field: value})


BROKEN = {
    "type": (set_chunk(0, 1, (I32, 6)), "i has another type in a row group than in the schema"),
    "negative codec": (set_chunk(0, 4, (I32, -3)), "field 4 is not a valid count"),
    "short statistic": (set_statistic(0, b"abc"), "a statistic of i is too short for its type"),
    "empty statistic": (set_statistic(0, b""), "a statistic of i is too short for its type"),
    "histogram": (
        set_chunk(0, 16, (STRUCT, {3: (LIST, ThriftList(I64, [1]))})),
        "i states counts for 1 levels and has 2",
    ),
    "size of numbers": (set_chunk(0, 16, (STRUCT, {1: (I64, 5)})), "i states a size of strings, but holds none"),
    "path": (set_chunk(0, 3, (LIST, ThriftList(BINARY, [b"\xff"]))), r"a name is not valid UTF-8 \(i\)"),
    "name": (set_in_schema(1, 4, (BINARY, b"\xff")), "a name is not valid UTF-8"),
    "offset": (set_chunk(0, 9, (I64, -5)), "field 9 is not a valid count"),
    "size": (set_chunk(0, 7, (I64, 1 << 60)), "the data of i would end beyond the end of the file"),
    "lost column": (
        lambda footer: footer[4][1].items[0][1][1].items.pop(),
        "a row group has 3 columns, the schema has 4",
    ),
    "lost chunk": (lambda footer: footer[4][1].items[0][1][1].items[0].pop(3), "it lacks the field 3"),
    "rows": (lambda footer: footer.update({3: (I64, 7)}), "it states 7 rows, its row groups state 3"),
    "negative rows": (lambda footer: footer.update({3: (I64, -3)}), "field 3 is not a valid count"),
    "children": (set_in_schema(0, 5, (I32, 9)), "its schema has fewer elements than the groups have children"),
    "too few children": (set_in_schema(0, 5, (I32, 1)), "its schema has more elements than the groups have children"),
    "kind of type": (set_in_schema(1, 1, (I32, 12)), "i has the unknown type 12"),
    "repetition": (set_in_schema(1, 3, (I32, 4)), "i has the unknown repetition 4"),
    "encrypted column": (
        lambda footer: footer[4][1].items[0][1][1].items[0].update({8: (STRUCT, {1: (STRUCT, {})})}),
        "i is encrypted, and packstone has no key for it",
    ),
    "encrypted columns": (lambda footer: footer.update({8: (STRUCT, {1: (STRUCT, {})})}), "it has encrypted columns"),
    "sorted by": (
        lambda footer: footer[4][1].items[0].update({4: (LIST, ThriftList(STRUCT, [{1: (I32, 7)}]))}),
        "it claims to be sorted by column 7 of 4",
    ),
    "bloom filter": (set_chunk(0, 14, (I64, 1 << 40)), "the bloom filter of i would begin beyond the end of the file"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_footer_that_contradicts_itself_is_refused_by_name(tmp_path, case):
    """The reason says what is wrong, and the process that opened the file lives."""
    edit, why = BROKEN[case]
    (tmp_path / "bad.parquet").write_bytes(with_footer(edit))
    with pytest.raises(UnreadableFileError, match=why) as caught:
        open_parquet(LocalFileIO(), str(tmp_path / "bad.parquet"))
    assert caught.value.facts["file"] == str(tmp_path / "bad.parquet")
    assert "bad.parquet" in caught.value.message


def test_shortened_statistics_of_fixed_binaries_are_left_alone(tmp_path):
    """Arrow's Rust library shortens them, which is allowed; PyArrow would end the process when it reads them."""
    (tmp_path / "a.parquet").write_bytes(with_footer(set_statistic(2, b"a")))
    with pytest.raises(UnfaithfulError, match=r"PyArrow cannot read .*a\.parquet: the statistics of x are shortened"):
        open_parquet(LocalFileIO(), str(tmp_path / "a.parquet"))


def test_a_codec_of_a_later_parquet_is_left_alone(tmp_path):
    """It is not damage that PyArrow does not know a codec; it would end the process when its name is requested."""
    (tmp_path / "a.parquet").write_bytes(with_footer(set_chunk(0, 4, (I32, 14))))
    with pytest.raises(
        UnfaithfulError, match=r"PyArrow cannot read .*a\.parquet: i is compressed with the unknown codec number 14"
    ):
        open_parquet(LocalFileIO(), str(tmp_path / "a.parquet"))


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"compression": "none", "use_dictionary": False, "write_statistics": False},
        {"data_page_version": "2.0", "write_page_index": True, "write_page_checksum": True},
        {"store_schema": False, "row_group_size": 1, "compression": "gzip"},
        {"compression": "lz4", "version": "1.0"},
        {"bloom_filter_options": {"i": {"ndv": 10, "fpp": 0.1}}},
    ],
)
def test_what_writers_write_passes(options):
    """A footer as PyArrow writes it is never refused, whatever options it was written with."""
    check_footer(pa.BufferReader(parquet_bytes(**options)), "good.parquet")


def test_a_footer_is_checked_anew_when_it_changed(tmp_path):
    """What was checked is remembered by its content: a good file that becomes bad is refused under the same name."""
    path = tmp_path / "a.parquet"
    path.write_bytes(parquet_bytes())
    open_parquet(LocalFileIO(), str(path)).close()
    path.write_bytes(with_footer(BROKEN["type"][0]))
    with pytest.raises(UnreadableFileError):
        open_parquet(LocalFileIO(), str(path))


def test_random_damage_to_a_footer_ends_no_process():
    """Whatever passes the check can be shown to PyArrow's metadata: this test would die if it could not."""
    data = parquet_bytes(write_page_index=True)
    length = int.from_bytes(data[-8:-4], "little")
    passed = 0
    for seed in range(4_000):
        chance = random.Random(seed)
        damaged = bytearray(data)
        for _ in range(chance.choice((1, 1, 2, 4))):
            at = chance.randrange(len(data) - 8 - length, len(data) - 4)
            damaged[at] = chance.choice((damaged[at] ^ 1 << chance.randrange(8), chance.randrange(256)))
        source = pa.BufferReader(bytes(damaged))
        try:
            check_footer(source, "a.parquet")
            metadata = pq.ParquetFile(source).metadata
        except (UnreadableFileError, UnfaithfulError, pa.ArrowException, OSError):
            continue
        passed += 1
        for group in range(metadata.num_row_groups):
            for leaf in range(metadata.num_columns):
                column = metadata.row_group(group).column(leaf)
                assert column.path_in_schema is not None
                assert column.statistics is None or column.statistics.has_min_max is not None
    assert passed > 100  # damage to numbers and names that nothing contradicts
