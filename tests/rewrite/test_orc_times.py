"""Timestamps of ORC: read as Java reads them, and stored as Java stores them, whatever PyArrow does."""

from __future__ import annotations

import errno
import gc
import random
from datetime import datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pytest
from orc_files import with_zone
from pyarrow import orc

from packstone.errors import UnfaithfulError, VerificationError
from packstone.rewrite.data_files.orc_rows import OrcOutput, OrcRows
from packstone.rewrite.formats.orc_java_form import check_fractions
from packstone.rewrite.formats.orc_streams import read_streams
from packstone.rewrite.formats.orc_tail import read_tail
from packstone.rewrite.formats.orc_times import pack_nanos, read_parts, to_wall_clock, unpack_nanos
from packstone.rewrite.load.input_files import InputOptions, InputPiece, LoadFile
from packstone.rewrite.load.read_inputs import read_inputs
from packstone.rewrite.merge_tree.spec import DataFormat, OutputSpec
from packstone.storage.local import LocalFileIO

IO = LocalFileIO()
SECOND = 1_000_000_000
CODECS = ("none", "zstd", "zlib", "snappy", "lz4")


def write(
    path: Path,
    table: pa.Table,
    *,
    compression: str = "zstd",
    block_bytes: int = 1 << 22,
    step: int = 8192,
    io: LocalFileIO = IO,
) -> bool:
    """Write a data file; say whether it was corrected."""
    spec = OutputSpec(
        directory=str(path.parent), file_format=DataFormat.ORC, compression=compression, block_bytes=block_bytes
    )
    output = OrcOutput(io, str(path), schema=table.schema, output=spec, sample=table)
    try:
        for at in range(0, table.num_rows, step):
            output.write(table.slice(at, step))
        output.close()
    except BaseException:
        output.abandon()
        raise
    return output._sink.is_corrected


def read(path: Path, schema: pa.Schema) -> pa.Table:
    """All rows by our reader."""
    rows = OrcRows(IO, str(path), schema.names)
    found = pa.Table.from_batches([batch for _, batch in rows.batches(batch_bytes=1 << 18)])
    rows.close()
    return found.cast(schema)


def stored(path: Path, column: int = 1) -> tuple[list[int], list[int]]:
    """Seconds since 1970 and nanoseconds as the streams hold them, of the first stripe."""
    tail = read_tail(IO, str(path))
    with IO.open_input(str(path)) as source:
        streams = read_streams(source, tail.stripes[0], tail=tail)
        seconds, nanos = read_parts(source, streams, column=column, tail=tail)
    return (seconds + 1_420_070_400).tolist(), nanos.tolist()


def times(*values: int | None, unit: str = "ns", zone: str | None = None) -> pa.Table:
    """A table of one column."""
    return pa.table({"at": pa.array(values, pa.timestamp(unit, zone))})


# What Java's writer stores (ORC's TimestampTreeWriter): seconds rounded towards zero, but down within a millisecond.
FORMS = {
    -1_500_000_000: (-1, 500_000_000),
    -2_000_000_000: (-2, 0),
    -1_999_999_999: (-2, 1),
    -1_999_000_001: (-2, 999_999),
    -1_999_000_000: (-1, 1_000_000),
    -1_000_000_001: (-1, 999_999_999),
    -1_000_000_000: (-1, 0),
    -999_000_001: (-1, 999_999),
    0: (0, 0),
    1: (0, 1),
    1_500_000_000: (1, 500_000_000),
    -447_183_899_999_877_000: (-447_183_900, 123_000),
    -447_183_899_877_000_000: (-447_183_899, 123_000_000),
}


@pytest.mark.parametrize("zone", [None, "UTC"])
def test_the_form_is_that_of_java(tmp_path, zone):
    """On both sides of a millisecond, of a second and of 1970, wall-clock times and instants are stored as by Java."""
    table = times(*FORMS, None, zone=zone)
    assert write(tmp_path / "a.orc", table)
    seconds, nanos = stored(tmp_path / "a.orc")
    assert dict(zip(FORMS, zip(seconds, nanos, strict=True), strict=True)) == FORMS
    assert read(tmp_path / "a.orc", table.schema).equals(table)
    assert orc.read_table(tmp_path / "a.orc").cast(table.schema).equals(table)


@pytest.mark.parametrize(
    ("value", "is_early"), [(-SECOND, False), (-SECOND - 1, True), (0, False), (1, False), (None, False)]
)
def test_only_fractions_before_1970_are_corrected(tmp_path, value, is_early):
    """Whole seconds and everything from 1970 on is left to PyArrow."""
    assert write(tmp_path / "a.orc", times(value)) is is_early


@pytest.mark.parametrize("unit", ["ms", "us", "ns"])
@pytest.mark.parametrize("nested", [False, True])
def test_the_last_second_before_1970_is_refused(tmp_path, unit, nested):
    """A time that every reader would see after 1970 is not written; the first millisecond of that second is."""
    per_second = SECOND // {"ms": 10**6, "us": 10**3, "ns": 1}[unit]
    table = times(5, -per_second // 2, unit=unit)
    if nested:
        table = pa.table({"at": pa.array([[value] for value in table["at"]], pa.list_(table.schema[0].type))})
    with pytest.raises(UnfaithfulError, match=r"1969-12-31 23:59:59.5.*the last second before 1970"):
        write(tmp_path / "a.orc", table)
    if unit != "ms":
        table = times(-per_second + 1, unit=unit)
        assert write(tmp_path / "b.orc", table)
        assert read(tmp_path / "b.orc", table.schema).equals(table)


def pick(dice: random.Random, unit: str) -> int | None:
    """A time of any kind but those that ORC has no form for."""
    per_second = {"ms": 10**3, "us": 10**6, "ns": 10**9}[unit]
    whole = dice.choice(
        [-dice.randrange(2, 2 * 10**9), dice.randrange(2 * 10**9), -dice.randrange(2, 9), dice.randrange(3)]
    )
    part = dice.choice([0, 0, 1, per_second // 2, per_second - 1, per_second // 1000, dice.randrange(per_second)])
    return None if dice.random() < 0.1 else whole * per_second + part


def random_table(dice: random.Random, rows: int) -> pa.Table:
    """Times in every nesting, with nulls at every level, and bytes that fill stripes."""
    unit = dice.choice(["ms", "us", "ns"])
    kind = pa.timestamp(unit, dice.choice([None, "UTC"]))
    early = dice.choice([0, rows // 2])  # the first of them may come late in the file

    def one(at: int) -> int | None:
        value = pick(dice, unit)
        return value if value is None or at >= early else abs(value)

    def some(at: int) -> list[int | None] | None:
        return None if dice.random() < 0.2 else [one(at) for _ in range(dice.randrange(4))]

    places = range(rows)
    return pa.table(
        {
            "a": pa.array([one(at) for at in places], kind),
            "s": pa.array(
                [None if dice.random() < 0.2 else {"x": one(at), "y": at} for at in places],
                pa.struct([("x", kind), ("y", pa.int64())]),
            ),
            "l": pa.array([some(at) for at in places], pa.list_(kind)),
            "m": pa.array(
                [None if (found := some(at)) is None else [(str(i), v) for i, v in enumerate(found)] for at in places],
                pa.map_(pa.string(), kind),
            ),
            "b": pa.array([dice.randbytes(40) for _ in places]),
        }
    )


def check_seed(folder: Path, seed: int) -> None:
    """Write a random table and read it by two readers."""
    dice = random.Random(seed)
    table = random_table(dice, dice.choice([1, 5, 100, 3_000, 25_000] if seed % 5 == 0 else [1, 5, 100, 700]))
    path = folder / f"{seed}.orc"
    options = {"compression": dice.choice(CODECS), "block_bytes": dice.choice([1 << 16, 1 << 22])}
    write(path, table, step=dice.choice([300, 8_192]), **options)
    assert orc.read_table(path).cast(table.schema).equals(table), seed
    assert read(path, table.schema).equals(table), seed
    check_fractions(IO, str(path))
    path.unlink()


def test_random_times(tmp_path):
    """PyArrow and our reader see what was written, and no fraction is negative."""
    for seed in range(25):
        check_seed(tmp_path, seed)


@pytest.mark.soak
def test_many_random_times(tmp_path):
    """The long form."""
    for seed in range(1000, 6000):
        check_seed(tmp_path, seed)


def test_negative_fractions_are_found_and_healed(tmp_path):
    """The form that PyArrow alone reads fails the check of an output; as an input its times are what they are."""
    table = times(-1_500_000_000, -1, -1_999_999_999, 7)
    orc.write_table(table, tmp_path / "a.orc")
    with pytest.raises(VerificationError, match="only PyArrow can read"):
        check_fractions(IO, str(tmp_path / "a.orc"))
    assert read(tmp_path / "a.orc", table.schema).equals(table)


def in_zone(values: list[int], zone: str) -> list[int]:
    """What Java reads of times that were stored in UTC if the stripe is said to be of a zone."""
    known = ZoneInfo(zone)
    moved = int(datetime(2015, 1, 1, tzinfo=known).timestamp()) - 1_420_070_400
    found = []
    for value in values:
        seconds, nanos = divmod(value, SECOND)
        seconds += (value < 0 and nanos > 999_999) + moved
        seconds -= seconds < 0 and nanos > 999_999
        offset = datetime.fromtimestamp(seconds, known).utcoffset()
        found.append((seconds + int(offset.total_seconds())) * SECOND + nanos)
    return found


@pytest.mark.parametrize("zone", ["Asia/Shanghai", "America/New_York", "Europe/Berlin", "Etc/GMT+5", "UTC"])
@pytest.mark.parametrize("codec", ["none", "zlib"])
def test_the_zone_of_the_writer(tmp_path, zone, codec):
    """Around 1970, 2015 and changes of the clocks, the sign is that of the instant and not of the wall clock."""
    near = [
        hours * 3600 * SECOND + part for hours in range(-14, 15) for part in (0, 1, SECOND // 2) if hours or part == 0
    ]
    later = [(base + hours * 3600) * SECOND + 5 for base in (1_711_846_800, 1_729_990_800) for hours in range(-3, 4)]
    table = times(*near, *later)
    write(tmp_path / "a.orc", table, compression=codec)
    with_zone(tmp_path / "a.orc", zone)
    expected = in_zone(near + later, zone)
    assert read(tmp_path / "a.orc", table.schema)["at"].cast(pa.int64()).to_pylist() == expected
    file = LoadFile(path=str(tmp_path / "a.orc"), size_bytes=1, file_format="orc")
    loaded = read_inputs(IO, InputPiece(file=file, size_bytes=1), schema=table.schema, options=InputOptions())
    assert [value for one in loaded for value in one.batch["at"].cast(pa.int64()).to_pylist()] == expected


DAY = 86_400
REFUSED = {
    "EET": (0, "systems understand differently"),
    "Europe/Amsterdam": (-3 * DAY, "other clocks before 1970"),
    "Africa/Windhoek": (-2_300_000_000, "changed its standard time"),
    "Europe/Dublin": (-2_300_000_000, "changed its standard time"),
    "Asia/Gaza": (2_200_000_000, "no agreed rule"),
    "Mars/Olympus": (0, "does not know"),
    "../../etc/passwd": (0, "understand differently|does not know"),
    "": (0, "does not name"),
}


@pytest.mark.parametrize("zone", REFUSED)
def test_zones_without_agreement(tmp_path, zone):
    """Where Java's clocks may differ from ours, times are refused with the reason; other times of the zone are not."""
    seconds, why = REFUSED[zone]
    write(tmp_path / "a.orc", times(seconds * SECOND))
    with_zone(tmp_path / "a.orc", zone)
    with pytest.raises(UnfaithfulError, match=why):
        read(tmp_path / "a.orc", times().schema)
    if "/" in zone and why not in ("does not know", "understand differently|does not know"):
        assert to_wall_clock(np.array([1_700_000_000]), zone) != [0]


def test_packed_nanoseconds():
    """Zeros at the end are cut off and come back."""
    nanos = np.array([0, 1, 10, 100, 1_000, 123_000, 999_999_999, 500_000_000, 100_000_000, 120_000_000], np.int64)
    packed = pack_nanos(nanos)
    assert unpack_nanos(packed).tolist() == nanos.tolist()
    assert packed[7] == 5 << 3 | 7
    with pytest.raises(ValueError, match="not below one second"):
        unpack_nanos(np.array([SECOND << 3], np.int64))


class FullDisk(LocalFileIO):
    """A disk with little room."""

    def __init__(self, room_bytes: int) -> None:
        self.room_bytes = room_bytes

    def open_output(self, path: str):
        """A file that fails when the room is used up."""
        return FullFile(super().open_output(path), self.room_bytes)


class FullFile:
    """Writes until there is no more room."""

    def __init__(self, file, room_bytes: int) -> None:
        self._file, self._room_bytes = file, room_bytes

    def write(self, data: bytes) -> int:
        """Take the bytes, or fail."""
        self._room_bytes -= len(data)
        if self._room_bytes < 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        return self._file.write(data)

    def close(self) -> None:
        """Close the file."""
        self._file.close()


@pytest.mark.parametrize("first", [5, -1_500_000_000], ids=["plain", "corrected"])
@pytest.mark.sample(2)
def test_a_full_disk(tmp_path, first):
    """Wherever the room ends, the error is that of the storage, and PyArrow prints nothing when it is dropped."""
    table = pa.table(
        {"at": times(first, *range(3_000))["at"], "noise": [random.Random(at).randbytes(99) for at in range(3_001)]}
    )
    write(tmp_path / "whole.orc", table, block_bytes=1 << 16, step=300)
    whole = (tmp_path / "whole.orc").stat().st_size
    for room in (0, 2, 3, 1_000, whole // 2, whole - 400, whole - 1):
        with pytest.raises(OSError, match="No space left") as failed:
            write(tmp_path / "a.orc", table, io=FullDisk(room), block_bytes=1 << 16, step=300)
        assert failed.value.errno == errno.ENOSPC
        gc.collect()
