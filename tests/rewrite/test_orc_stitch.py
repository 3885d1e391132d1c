"""ORC files are merged by copying stripes: the same bytes of rows under one footer, or not at all."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pyarrow as pa
import pytest
from orc_files import add_field, change_footer, change_type, orc_table, read_orc_files, write_orc_files
from pyarrow import orc

from packstone.errors import UnfaithfulError, UnreadableFileError
from packstone.model.files import FileEntry, Permissions
from packstone.model.unit import How, UnitSpec, UnitStatus, Verify
from packstone.rewrite.formats.orc_protobuf import find_all, find_int, read_message
from packstone.rewrite.formats.orc_tail import read_tail
from packstone.rewrite.small_files.merge_unit import run_unit
from packstone.rewrite.small_files.orc_kernel import read_orc_facts, read_stripe_footer, read_tails, stitch_orc
from packstone.storage.local import LocalFileIO

IO = LocalFileIO()
ROWS = 2_000  # enough for stripes that are copied
CODECS = ("uncompressed", "zlib", "snappy", "lz4", "zstd")
FOOTER_STREAMS, STREAM_LENGTH = 1, 3  # fields of a stripe's footer


def check_stripe_footers(io, path) -> None:
    """Read the footer of every stripe: its streams must fill the stripe exactly."""
    tail = read_tail(io, path)
    for stripe in tail.stripes:
        footer = read_stripe_footer(io, path, stripe, tail=tail)
        index_bytes, data_bytes, _ = stripe.lengths
        streams = [find_int(read_message(one), STREAM_LENGTH) for one in find_all(footer, FOOTER_STREAMS)]
        if sum(streams) != index_bytes + data_bytes:
            raise UnreadableFileError(f"{path} has a stripe whose streams do not fill it.", file=path)


def stitch(folder: Path) -> Path:
    """Merge all files of a folder."""
    paths = [str(path) for path in sorted(folder.glob("*.orc"))]
    output = folder.parent / "out.orc"
    stitch_orc(IO, paths, str(output), tails=read_tails(IO, paths))
    return output


@pytest.mark.parametrize("codec", CODECS)
def test_rows_follow_each_other(tmp_path, codec):
    """Under every codec PyArrow reads the rows of all files, in their order, and no stripe has changed."""
    folder = write_orc_files(tmp_path / "t", compression=codec)
    output = stitch(folder)
    assert orc.read_table(output).equals(read_orc_files(folder))
    check_stripe_footers(IO, str(output))
    merged = orc.ORCFile(output)
    assert (merged.nstripes, merged.compression) == (6, codec.upper())
    content = output.read_bytes()
    for path in folder.iterdir():
        (stripe,) = read_tail(IO, str(path)).stripes
        assert content.count(path.read_bytes()[stripe.offset : stripe.offset + stripe.size_bytes]) == 1


def test_many_stripes(tmp_path):
    """Files of several stripes keep each of them, and can be merged again."""
    folder = tmp_path / "t"
    folder.mkdir()
    noise = pa.table({"n": [f"{at * 7919 % 99991}" * 9 for at in range(40_000)]})
    for at in range(3):
        orc.write_table(noise, folder / f"{at}.orc", stripe_size=100_000, batch_size=1024)
    stripes = [orc.ORCFile(path).nstripes for path in folder.iterdir()]
    assert min(stripes) > 1
    output = stitch(folder)
    assert orc.ORCFile(output).nstripes == sum(stripes)
    again = tmp_path / "again"
    again.mkdir()
    for at in range(2):
        (again / f"{at}.orc").write_bytes(output.read_bytes())
    assert orc.read_table(stitch(again)).num_rows == 6 * noise.num_rows


def test_a_stripe_longer_than_a_chunk(tmp_path):
    """A stripe of any length is copied piece by piece."""
    folder = tmp_path / "t"
    folder.mkdir()
    noise = pa.table({"n": [hashlib.sha512(b"%d" % at).digest() * 64 for at in range(1300)]})
    for at in range(2):
        orc.write_table(noise, folder / f"{at}.orc")
    (stripe,) = read_tail(IO, str(folder / "0.orc")).stripes
    assert stripe.size_bytes > 5 << 20
    output = stitch(folder)
    assert orc.read_table(output).equals(read_orc_files(folder))
    assert orc.ORCFile(output).nstripes == 2


def test_files_without_rows(tmp_path):
    """A file without a stripe adds nothing; files without rows make one without rows and with their schema."""
    folder = write_orc_files(tmp_path / "t", files=2)
    orc.write_table(orc_table().slice(0, 0), folder / "001-empty.orc", compression="zlib")
    assert orc.ORCFile(folder / "001-empty.orc").nstripes == 0
    assert orc.read_table(stitch(folder)).equals(read_orc_files(folder))
    empty = tmp_path / "empty"
    empty.mkdir()
    for at in range(3):
        (empty / f"{at}.orc").write_bytes((folder / "001-empty.orc").read_bytes())
    merged = orc.ORCFile(stitch(empty))
    assert (merged.nrows, merged.nstripes, merged.schema) == (0, 0, orc.ORCFile(empty / "0.orc").schema)


def test_footers_are_kept(tmp_path):
    """What users put in, attributes of types, char lengths and the calendar come out as they went in."""
    folder = write_orc_files(tmp_path / "t", files=3)
    for path in folder.iterdir():
        change_footer(path, change_type(5, kind=17, length=12))
        change_footer(path, add_field(5, b"\x0a\x05owner\x12\x02us"))
        change_footer(path, lambda footer: [*footer, (11, 0, 1)])
    before = read_orc_facts(IO, str(folder / "000.orc"))
    output = stitch(folder)
    assert read_orc_facts(IO, str(output)).agreement == before.agreement
    assert orc.ORCFile(output).metadata == {b"owner": b"us"}


DIFFERENT = {
    "a char is longer": change_type(5, kind=17, length=13),
    "text is binary": change_type(5, kind=8),
    "a key of the user's": add_field(5, b"\x0a\x05owner\x12\x02me"),
    "a calendar": lambda footer: [*footer, (11, 0, 1)],
    "a stride": lambda footer: [field if field[0] != 8 else (8, 0, 77) for field in footer],
    "an unknown writer": lambda footer: [field if field[0] != 9 else (9, 0, 2) for field in footer],
    "a field of a later version": add_field(99, b"new"),
}


@pytest.mark.parametrize("what", DIFFERENT)
def test_what_differs_is_not_merged(tmp_path, what):
    """Files that one footer cannot describe are groups of their own, and a unit of both is refused."""
    folder = write_orc_files(tmp_path / "t", files=2)
    change_footer(folder / "001.orc", DIFFERENT[what])
    facts = [read_orc_facts(IO, str(path)) for path in sorted(folder.iterdir())]
    assert facts[0].agreement != facts[1].agreement
    with pytest.raises(UnfaithfulError, match="different schema, codec or writer"):
        stitch(folder)


@pytest.mark.parametrize("options", [{"compression": "snappy"}, {"compression_block_size": 1 << 17}])
def test_another_codec_is_not_merged(tmp_path, options):
    """Codec and block size belong to the whole file."""
    folder = write_orc_files(tmp_path / "t", files=2)
    orc.write_table(orc_table(), folder / "001.orc", **{"compression": "zlib", **options})
    with pytest.raises(UnfaithfulError, match="different schema, codec or writer"):
        stitch(folder)


LEFT_ALONE = {
    "encrypted columns": add_field(10, b"\x0a\x02ab"),
    "transactional": add_field(5, b"\x0a\x13hive.acid.key.index\x12\x01x"),
    "type number 19": change_type(5, kind=19),
}


@pytest.mark.parametrize("why", LEFT_ALONE)
def test_left_alone(tmp_path, why):
    """Encrypted files, files of transactional tables and types of a later version are not merged."""
    folder = write_orc_files(tmp_path / "t", files=2)
    for path in folder.iterdir():
        change_footer(path, LEFT_ALONE[why])
    assert why in read_orc_facts(IO, str(folder / "000.orc")).left_alone
    with pytest.raises(UnfaithfulError, match=why):
        stitch(folder)


def test_lzo_is_left_alone(tmp_path):
    """A footer under a codec that cannot be decoded here is not a broken file."""
    folder = write_orc_files(tmp_path / "t", files=1)
    path = folder / "000.orc"
    data = bytearray(path.read_bytes())
    at = len(data) - 1 - data[-1]
    place = data.index(b"\x10\x01", at)  # field 2, zlib
    data[place + 1] = 3
    path.write_bytes(data)
    assert "LZO" in read_orc_facts(IO, str(path)).left_alone


def entry(path: Path) -> FileEntry:
    """A file as a plan saw it."""
    found = path.stat()
    permissions = Permissions(uid=found.st_uid, gid=found.st_gid, mode=found.st_mode & 0o7777)
    return FileEntry(name=path.name, size_bytes=found.st_size, mtime_ns=found.st_mtime_ns, permissions=permissions)


def run(folder: Path, io: LocalFileIO = IO, *, verify: Verify = Verify.CONTENT):
    """Merge and prove all files of a folder."""
    inputs = tuple(entry(path) for path in sorted(folder.glob("*.orc")))
    staging = folder.parent / "staging"
    staging.mkdir(exist_ok=True)
    spec = UnitSpec(
        number=1, partition="", directory=str(folder), inputs=inputs, how=How.STITCH, file_format="orc", why="test",
        output_name="out.orc", permissions=inputs[0].permissions, verify=verify,
    )  # fmt: skip
    return run_unit(io, spec, staging=str(staging), attempt="a0")


@pytest.mark.parametrize("rows", [100, ROWS], ids=["tiny", "big"])
@pytest.mark.parametrize("keep", [0, 2, 40, 500, -1, -5])
def test_a_truncated_input_is_named(tmp_path, keep, rows):
    """A file that was cut anywhere is blamed by name."""
    folder = write_orc_files(tmp_path / "t", files=3, rows=rows)
    broken = folder / "001.orc"
    broken.write_bytes(broken.read_bytes()[:keep])
    result = run(folder)
    assert (result.status, Path(result.blamed).name) == (UnitStatus.UNREADABLE, "001.orc")
    with pytest.raises(UnreadableFileError):
        read_orc_facts(IO, str(broken))


@pytest.mark.parametrize("verify", Verify)
def test_a_stripe_broken_before_is_named(tmp_path, verify):
    """Bytes that do not decode are not copied in silence, whatever the verification: their file is blamed."""
    folder = write_orc_files(tmp_path / "t", files=3, rows=2_000)
    broken = folder / "001.orc"
    data = bytearray(broken.read_bytes())
    (stripe,) = read_tail(IO, str(broken)).stripes
    middle = stripe.offset + stripe.lengths[0] + stripe.lengths[1] // 3
    data[middle : middle + 400] = b"\x55" * 400
    broken.write_bytes(data)
    result = run(folder, verify=verify)
    assert (result.status, Path(result.blamed).name) == (UnitStatus.UNREADABLE, "001.orc")


class Tampering(LocalFileIO):
    """Changes the staged output behind the writer's back."""

    def __init__(self, change):
        self.change = change

    def sync_file(self, path):
        """The writer is done."""
        super().sync_file(path)
        self.change(Path(path))


def flip(at):
    """Change one byte."""

    def change(path):
        data = bytearray(path.read_bytes())
        data[at if at >= 0 else len(data) + at] ^= 0x10
        path.write_bytes(data)

    return change


def without_the_last_stripe(path):
    """Forget a stripe in the footer."""

    def change(footer):
        last = max(at for at, field in enumerate(footer) if field[0] == 3)
        return [field if field[0] != 6 else (6, 0, 2 * ROWS) for at, field in enumerate(footer) if at != last]

    change_footer(path, change)


TAMPERED = {
    "a byte of a stripe": flip(700),
    "a byte of the footer": flip(-60),
    "a stripe gone": without_the_last_stripe,
    "a type changed": lambda path: change_footer(path, change_type(5, kind=8)),
    "a key of the user's": lambda path: change_footer(path, add_field(5, b"\x0a\x01k\x12\x01v")),
    "vanished": lambda path: path.unlink(),
}


@pytest.mark.parametrize("what", TAMPERED)
def test_a_changed_output_is_found(tmp_path, what):
    """An output that is not the inputs' stripes under their footer is a mismatch, never a success."""
    folder = write_orc_files(tmp_path / "t", files=3, rows=ROWS)
    assert (run(folder).status, run(folder).how) == (UnitStatus.WRITTEN, How.STITCH)
    assert run(folder, Tampering(TAMPERED[what])).status is UnitStatus.MISMATCH


@pytest.mark.parametrize("codec", ["uncompressed", "zlib"])
def test_a_flipped_byte_in_a_tail(tmp_path, codec):
    """Whatever byte of a tail is broken, the file is unreadable, differs from others, or loses no row."""
    folder = write_orc_files(tmp_path / "t", files=2, compression=codec)
    broken, good = folder / "000.orc", folder / "001.orc"
    data, first = broken.read_bytes(), read_tail(IO, str(broken)).content_end
    rows, found = read_orc_files(folder), 0
    for at in range(first, len(data), 5):
        changed = bytearray(data)
        changed[at] ^= 0x91
        broken.write_bytes(changed)
        try:
            read_orc_facts(IO, str(broken))
            tails = read_tails(IO, [str(broken), str(good)])
            stitch_orc(IO, [str(broken), str(good)], str(tmp_path / "out.orc"), tails=tails)
            check_stripe_footers(IO, str(tmp_path / "out.orc"))
        except (UnreadableFileError, UnfaithfulError):
            found += 1
        else:
            assert orc.read_table(tmp_path / "out.orc").equals(rows)
    assert found > 20
