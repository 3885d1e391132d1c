"""Damaged ORC files through whole runs, in a process that may die: ``python orc_mutations.py KIND FIRST LAST FOLDER``.

Prints the number of each case before it starts and a line for each finding; who reads this knows by the last number
which case ended the process.
"""

from __future__ import annotations

import contextlib
import io
import random
import shutil
import signal
import sys
import traceback
from pathlib import Path

import pyarrow as pa
from orc_files import write_orc_files
from patience import patient
from pyarrow import orc

from packstone import HiveOptions, Table
from packstone.errors import PackstoneError
from packstone.rewrite.formats.orc_tail import read_tail
from packstone.rewrite.load.input_files import InputOptions, InputPiece, LoadFile
from packstone.rewrite.load.read_inputs import read_inputs
from packstone.storage.local import LocalFileIO

CODECS = ("zlib", "uncompressed", "zstd", "snappy", "lz4")
SECONDS = patient(60)  # more is a hang
PAIMON_TABLE = Path(__file__).parent / "testdata/paimon/orc/table"
_cache: dict[tuple[str, int], list[tuple[str, bytes]]] = {}


def mutate(dice: random.Random, data: bytes, *, tail_at: int) -> bytes:
    """Change bits, runs of bytes or the length of a file: anywhere, in its tail, or in the last stripe's footer."""
    out = bytearray(data)
    low, high = dice.choice([(0, len(out)), (0, len(out)), (tail_at, len(out)), (max(0, tail_at - 400), tail_at)])
    at, size = dice.randrange(low, high), dice.randrange(1, 64)
    match dice.randrange(5):
        case 0:
            for _ in range(dice.choice([1, 1, 1, 4, 20])):
                out[dice.randrange(low, high)] ^= 1 << dice.randrange(8)
        case 1:
            out[at : at + size] = bytes([dice.choice([0, 255, 0x55, dice.randrange(256)])]) * size
        case 2:
            del out[at:]
        case 3:
            del out[at : at + size]
        case _:
            out[at:at] = dice.randbytes(size)
    return bytes(out)


def good_files(folder: Path, codec: str, rows: int) -> list[tuple[str, bytes]]:
    """Three files, made once."""
    if (codec, rows) not in _cache:
        made = write_orc_files(folder / f"good-{codec}-{rows}", files=3, rows=rows, compression=codec)
        _cache[codec, rows] = [(path.name, path.read_bytes()) for path in sorted(made.iterdir())]
    return _cache[codec, rows]


def tail_of(folder: Path, data: bytes) -> int:
    """Where the tail of a good file begins."""
    path = folder / "good.orc"
    path.write_bytes(data)
    return read_tail(LocalFileIO(), str(path)).content_end


def hive(folder: Path, dice: random.Random) -> str:
    """Compact a directory with one damaged file: the rows of the others are all there."""
    rows = dice.choice([30, 30, 30, 2_000])  # encoded again, or copied
    files = good_files(folder, dice.choice(CODECS), rows)
    table = folder / "table"
    table.mkdir()
    for at, (name, data) in enumerate(files):
        content = data if at != 1 else mutate(dice, data, tail_at=tail_of(folder, data))
        (table / name).write_bytes(content)
    outcome = Table(str(table)).compact(HiveOptions(min_files=2))
    said = " ".join(map(str, (*outcome.skipped, outcome.status)))
    damaged = table / files[1][0]
    kept = [path for path in table.glob("*.orc") if path != damaged]
    seen = [one for path in kept for one in orc.read_table(path, columns=["id"])["id"].to_pylist()]
    if not {*range(rows), *range(2 * rows, 3 * rows)} <= set(seen):
        return f"rows are missing: {said}"
    if not damaged.exists() and len(seen) != 3 * rows:
        return f"{len(seen)} rows of {3 * rows}: {said}"
    return f"said {said}" if "nexpected" in said or "Traceback" in said else ""


def paimon(folder: Path, dice: random.Random) -> str:
    """Compact a Paimon table with a damaged file: it is refused or done, and what is there stays."""
    from packstone.cli.main import run

    table = folder / "table"
    shutil.copytree(PAIMON_TABLE, table)
    files = sorted(table.rglob("data-*.orc"))
    path = dice.choice(files)
    data = path.read_bytes()
    path.write_bytes(mutate(dice, data, tail_at=tail_of(folder, data)))
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = run(["compact", str(table), "--strategy", "full"])
    said = out.getvalue() + err.getvalue()
    if any(not file.exists() for file in files):
        return f"a file is gone: {said}"
    return f"exit {code}: {said}" if code not in (0, 1, 3) or "nexpected" in said or "Traceback" in said else ""


def load(folder: Path, dice: random.Random) -> str:
    """Read a damaged file as a load of segments does: rows, or one sentence."""
    _, data = good_files(folder, dice.choice(CODECS), 30)[0]
    path = folder / "input.orc"
    path.write_bytes(mutate(dice, data, tail_at=tail_of(folder, data)))
    file = LoadFile(path=str(path), size_bytes=path.stat().st_size, file_format="orc")
    try:
        for _ in read_inputs(
            LocalFileIO(), InputPiece(file=file, size_bytes=1), schema=pa.schema([]), options=InputOptions()
        ):
            pass
    except PackstoneError as error:
        return "" if "\n" not in error.message else f"said {error.message}"
    return ""


def main(kind: str, first: int, last: int, folder: Path) -> None:
    """Run the cases of a kind."""
    check = {"hive": hive, "paimon": paimon, "load": load}[kind]
    for seed in range(first, last):
        sys.stdout.write(f"case {seed}\n")
        sys.stdout.flush()
        signal.alarm(SECONDS)
        try:
            finding = check(folder, random.Random(seed))
        except Exception:  # noqa: BLE001 - whatever it is, it is a finding
            finding = traceback.format_exc(limit=-3)
        if finding:
            sys.stdout.write(f"finding {seed} {finding!r}\n")
        shutil.rmtree(folder / "table", ignore_errors=True)
    signal.alarm(0)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), Path(sys.argv[4]))
