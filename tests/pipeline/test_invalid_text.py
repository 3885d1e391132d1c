"""A merge does not carry text along that is not valid UTF-8, unless requested."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from packstone.model.outcome import Status
from packstone.model.unit import Verify
from packstone.pipeline.table import Table
from packstone.runs.engine import InlineEngine
from packstone.tables.hive.options import HiveOptions

BAD_NAME = "f3.parquet"


def write_files(folder, *, use_dictionary: bool, rows: int) -> None:
    """Seven files of numbers and text; the text of one has a byte of Latin-1."""
    folder.mkdir(parents=True)
    for number in range(7):
        name = f"f{number}.parquet"
        texts = [b"gr\xfcn" if name == BAD_NAME and row == rows // 2 else b"green %d" % row for row in range(rows)]
        binary = pa.array(texts, pa.binary())
        text = pa.Array.from_buffers(pa.string(), len(binary), binary.buffers())
        table = pa.table({"id": range(number * rows, number * rows + rows), "s": text})
        pq.write_table(table, folder / name, use_dictionary=use_dictionary, compression="zstd")


def compact(folder, **options):
    """Merge in this process."""
    return Table(str(folder), engine=InlineEngine).compact(HiveOptions(**options))


@pytest.mark.parametrize(
    ("use_dictionary", "codec", "how"),
    [(True, "keep", "splice"), (False, "keep", "splice"), (True, "snappy", "rewrite"), (False, "snappy", "rewrite")],
)
class TestInvalidText:
    """For files whose dictionaries are merged, files whose pages are copied, and files that are encoded again."""

    def test_the_file_is_left_alone_by_name(self, tmp_path, use_dictionary, codec, how):
        """The others are merged, the file is as it was, and the reason names file, column and option."""
        write_files(tmp_path / "t", use_dictionary=use_dictionary, rows=2000)
        before = (tmp_path / "t" / BAD_NAME).read_bytes()
        outcome = compact(tmp_path / "t", codec=codec)
        assert outcome.status is Status.PARTIAL
        assert [unit.how for unit in outcome.units] == [how]
        assert BAD_NAME not in outcome.units[0].inputs
        assert len(outcome.units[0].inputs) == 6
        (skip,) = (skip for skip in outcome.skipped if skip.kind == "unreadable")
        assert skip.what == BAD_NAME
        assert "text in column s that is not valid UTF-8" in skip.why
        assert "--set accept-invalid-text=true" in skip.why
        assert (tmp_path / "t" / BAD_NAME).read_bytes() == before

    def test_it_is_merged_if_the_user_accepts_it(self, tmp_path, use_dictionary, codec, how):
        """Tables that hold Latin-1 on purpose are merged as before, byte for byte."""
        write_files(tmp_path / "t", use_dictionary=use_dictionary, rows=2000)
        outcome = compact(tmp_path / "t", codec=codec, accept_invalid_text=True)
        assert outcome.status is Status.COMMITTED
        assert [unit.how for unit in outcome.units] == [how]
        (merged,) = (tmp_path / "t").glob("*.parquet")
        texts = pq.read_table(merged, columns=["s"]).column("s").cast(pa.binary()).to_pylist()
        assert texts.count(b"gr\xfcn") == 1
        assert len(texts) == 7 * 2000

    def test_count_looks_at_numbers_only(self, tmp_path, use_dictionary, codec, how):
        """``--verify count`` decodes no text to check it."""
        write_files(tmp_path / "t", use_dictionary=use_dictionary, rows=2000)
        outcome = compact(tmp_path / "t", codec=codec, verify=Verify.COUNT)
        assert outcome.status is Status.COMMITTED
        assert [unit.how for unit in outcome.units] == [how]
