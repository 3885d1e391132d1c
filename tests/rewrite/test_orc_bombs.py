"""Decompression bombs and long values in ORC: read in bounded batches, or refused with the number."""

import numpy as np
import pyarrow as pa
import pytest
from orc_files import change_stripe_footers, write_orc_files
from pyarrow import orc

from packstone import HiveOptions, Table
from packstone.errors import UnreadableFileError
from packstone.rewrite.formats import orc_streams as decoded_size
from packstone.rewrite.formats.orc_protobuf import BYTES, VARINT
from packstone.rewrite.formats.orc_reader import OrcReader
from packstone.rewrite.formats.orc_streams import read_streams
from packstone.rewrite.formats.orc_tail import read_tail
from packstone.storage.local import LocalFileIO

IO = LocalFileIO()
MB = 1 << 20


def long_list(items):
    """One row with a list of zeros."""
    return pa.table(
        {"a": pa.ListArray.from_arrays(pa.array([0, items], pa.int32()), pa.array(np.zeros(items, np.int8)))}
    )


def test_a_list_that_is_a_bomb(tmp_path):
    """A kilobyte that holds a row of 300 MB is left alone by name and number; the other files are merged."""
    for at in range(2):
        orc.write_table(long_list(3), tmp_path / f"{at}.orc", compression="zlib")
    orc.write_table(long_list(20_000_000), tmp_path / "bomb.orc", compression="zlib")
    assert (tmp_path / "bomb.orc").stat().st_size < 4_000
    outcome = Table(str(tmp_path)).compact(HiveOptions(min_files=2))
    assert [len(unit.inputs) for unit in outcome.units] == [2]
    (skip,) = outcome.skipped
    assert "bomb.orc would take 305" in str(skip)


@pytest.mark.parametrize("threshold", [0.0, 1.0], ids=["direct", "dictionary"])
def test_texts_that_are_a_bomb(tmp_path, monkeypatch, threshold):
    """Texts are added up exactly, those of a dictionary as often as they occur; below the limit they are read."""
    texts = ["x" * 60_000, "", None, "y" * 20_000] * 250
    table = pa.table({"a": texts, "b": [[text] for text in texts]})
    orc.write_table(table, tmp_path / "a.orc", compression="zlib", dictionary_key_size_threshold=threshold)
    decoded = 2 * 80_000 * 250 + 16 * 1000 * 3
    monkeypatch.setattr(decoded_size, "_MAX_FILE_BYTES", decoded)
    monkeypatch.setattr(decoded_size, "_MAX_RATIO", 1)
    with OrcReader(IO, str(tmp_path / "a.orc")) as file:
        assert pa.Table.from_batches(file.batches(["a", "b"], max_rows=1000)).equals(table)
    monkeypatch.setattr(decoded_size, "_MAX_FILE_BYTES", decoded - 1)
    with pytest.raises(UnreadableFileError, match=rf"would take {decoded / MB:.2f}"):
        OrcReader(IO, str(tmp_path / "a.orc"))


def test_long_values_are_read_in_small_batches(tmp_path):
    """A batch is bounded by the longest text of the file, wherever it comes, and by the longest list."""
    long = "z" * (4 * MB)
    table = pa.table({"a": ["short"] * 900 + [long], "b": [[1] * (at % 7) for at in range(901)]})
    orc.write_table(table, tmp_path / "a.orc", compression="zlib")
    with OrcReader(IO, str(tmp_path / "a.orc")) as file:
        batches = list(file.batches(["a", "b"], max_rows=1 << 14))
    assert max(batch.num_rows for batch in batches) <= decoded_size.BATCH_BYTES // (4 * MB)
    assert pa.Table.from_batches(batches).equals(table)
    orc.write_table(table.slice(0, 900), tmp_path / "b.orc", compression="zlib")
    with OrcReader(IO, str(tmp_path / "b.orc")) as file:
        assert next(file.batches(["a", "b"], max_rows=1 << 14)).num_rows == 900


@pytest.mark.slow
def test_a_footer_that_is_a_bomb(tmp_path):
    """PyArrow repeats the longest text in three statistics: such a footer is refused and not copied about."""
    orc.write_table(pa.table({"a": ["q" * (70 * MB)]}), tmp_path / "a.orc", compression="zlib")
    with pytest.raises(UnreadableFileError, match="hold more than 134217728 when they are decoded"):
        read_tail(IO, str(tmp_path / "a.orc"))


def test_streams_that_do_not_fill_the_stripe(tmp_path):
    """A footer of a stripe whose streams are longer than the stripe is not shown to PyArrow."""
    folder = write_orc_files(tmp_path / "t", files=1)
    path = folder / "000.orc"
    change_stripe_footers(path, lambda footer: [*footer, (1, BYTES, bytes((1 << 3 | VARINT, 1, 3 << 3 | VARINT, 99)))])
    with pytest.raises(UnreadableFileError, match="do not fill it"):
        OrcReader(IO, str(path))


@pytest.mark.parametrize("codec", ["zlib", "zstd", "snappy", "lz4"])
def test_an_empty_block(tmp_path, codec):
    """A compressed block of no bytes, behind which PyArrow would read foreign memory, is not shown to it."""
    folder = write_orc_files(tmp_path / "t", files=1, compression=codec)
    path = folder / "000.orc"
    tail = read_tail(IO, str(path))
    with IO.open_input(str(path)) as source:
        last = read_streams(source, tail.stripes[0], tail=tail).streams[-1]
    data = bytearray(path.read_bytes())
    data[last.offset : last.offset + last.size_bytes] = bytes(last.size_bytes)
    path.write_bytes(data)
    with pytest.raises(UnreadableFileError, match="a compressed block is empty"):
        OrcReader(IO, str(path))
