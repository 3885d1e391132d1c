"""ORC files for tests: of many types, and with footers changed to what no writer on this machine writes."""

from pathlib import Path

import pyarrow as pa
from pyarrow import orc

from packstone.rewrite.formats.orc_protobuf import BYTES, read_message, write_message
from packstone.rewrite.formats.orc_tail import FOOTER_STRIPES, FOOTER_TYPES, MAGIC, read_tail, write_tail
from packstone.storage.local import LocalFileIO

ROWS = 100


def orc_table(first: int = 0, rows: int = ROWS) -> pa.Table:
    """Rows of many types, with nulls, all different from those of another start."""
    ids = list(range(first, first + rows))
    return pa.table(
        {
            "id": pa.array(ids, pa.int64()),
            "small": pa.array([at % 100 for at in ids], pa.int8()),
            "flag": [None if at % 7 == 0 else at % 2 == 0 for at in ids],
            "price": [at / 3 for at in ids],
            "name": [None if at % 5 == 0 else f"name {at}" for at in ids],
            "raw": [f"raw {at}".encode() for at in ids],
            "exact": pa.array([at * 101 for at in ids], pa.int64()).cast(pa.decimal128(22, 2)),
            "day": pa.array([at * 30 for at in ids], pa.int32()).cast(pa.date32()),
            "at": pa.array([1_000 + at * 1_000_003 for at in ids], pa.timestamp("us")),
            "list": [[at, None, at + 1][: at % 4] for at in ids],
            "pair": [{"x": at, "y": [{"z": str(at)}]} for at in ids],
            "map": pa.array([[(f"k{at}", at)] for at in ids], pa.map_(pa.string(), pa.int64())),
        }
    )


def write_orc_files(folder: Path, *, files: int = 6, rows: int = ROWS, compression: str = "zlib", **options) -> Path:
    """Write files whose rows follow each other."""
    folder.mkdir(parents=True, exist_ok=True)
    for at in range(files):
        orc.write_table(orc_table(at * rows, rows), folder / f"{at:03d}.orc", compression=compression, **options)
    return folder


def read_orc_files(folder: Path) -> pa.Table:
    """All rows of a folder by PyArrow, in the order of names."""
    return pa.concat_tables(orc.read_table(path) for path in sorted(folder.glob("*.orc")))


def change_footer(path: Path, change) -> None:
    """Write a file anew with the same stripes and a footer made of its footer."""
    tail = read_tail(LocalFileIO(), str(path))
    stripes = path.read_bytes()[: tail.content_end]
    path.write_bytes(stripes + write_tail(tail, footer=change(tail.footer), stripe_statistics=tail.stripe_statistics))


def add_field(number: int, value: bytes):
    """A change that adds a field to the footer."""
    return lambda footer: sorted([*footer, (number, BYTES, value)], key=lambda field: field[0])


def change_type(column: int, **values: int):
    """A change that makes a column another type: ``kind`` and ``length`` by their numbers in ORC."""
    numbers = {"kind": 1, "length": 4}

    def change(footer):
        types = [at for at, field in enumerate(footer) if field[0] == FOOTER_TYPES]
        fields = {number: (number, wire, value) for number, wire, value in read_message(footer[types[column]][2])}
        for name, value in values.items():
            fields[numbers[name]] = (numbers[name], 0, value)
        changed = list(footer)
        changed[types[column]] = (FOOTER_TYPES, BYTES, write_message(fields[number] for number in sorted(fields)))
        return changed

    return change


def change_stripe_footers(path: Path, change) -> None:
    """Write a file anew with other footers of its stripes."""
    tail = read_tail(LocalFileIO(), str(path))
    data, out, stripes = path.read_bytes(), bytearray(MAGIC), []
    for stripe in tail.stripes:
        index_bytes, data_bytes, footer_bytes = stripe.lengths
        begin = stripe.offset + index_bytes + data_bytes
        footer = read_message(tail.compression.decompress(data[begin : begin + footer_bytes]))
        packed = tail.compression.compress(write_message(change(footer)))
        stripes.append(stripe.moved_to(len(out)).resized(index_bytes, data_bytes, len(packed)))
        out += data[stripe.offset : begin] + packed
    rest = [field for field in tail.footer if field[0] != FOOTER_STRIPES]
    footer = [*rest, *((FOOTER_STRIPES, BYTES, write_message(stripe.fields)) for stripe in stripes)]
    path.write_bytes(bytes(out) + write_tail(tail, footer=footer, stripe_statistics=tail.stripe_statistics))


def with_zone(path: Path, zone: str) -> None:
    """Say that the writer was in a zone."""
    change_stripe_footers(path, lambda footer: [*(one for one in footer if one[0] != 3), (3, BYTES, zone.encode())])
