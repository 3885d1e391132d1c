"""``check``: each kind of damage is found in the file where it is, and a sound table is sound."""

import json
import random
import re
import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import packstone
from packstone.errors import CorruptionError, InvalidInputError, PackstoneError
from packstone.model.codec import seal
from packstone.query.scan.caches import process_caches
from packstone.storage.local import LocalFileIO
from packstone.tables.segments.format import status_files
from packstone.tables.segments.format.segment_file import read_index, read_segment, write_index
from packstone.tables.segments.format.status_files import read_latest

IO = LocalFileIO()
PAIMON = Path(__file__).parents[2] / "examples" / "paimon" / "orders"
SCHEMA = "id long not null, name string, price double, tags array<string>"


def rows(start, count=3000):
    """Rows with NaN, nulls, long strings and lists."""
    ids = range(start, start + count)
    return pa.table(
        {
            "id": pa.array(ids, pa.int64()),
            "name": [f"n{one % 40}" * 60 if one % 7 else None for one in ids],
            "price": [float("nan") if one % 11 == 0 else one / 2 - 10 for one in ids],
            "tags": [["a"]] * count,
        }
    )


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A segment table with merged, deleted and fresh segments, whose entries are in chunks, and its rows."""
    path = tmp_path_factory.mktemp("made") / "t"
    properties = {"TABLE_BLOCKLET_ROWS": "1000", "BLOOM_COLUMNS": "name"}
    table = packstone.create(str(path), SCHEMA, sort_by=["id"], properties=properties)
    for load in range(18):
        table.segments.load(rows(load * 100, 100))
    table.segments.delete(ids=["3"])
    ids = tuple(one.id for one in read_latest(IO, str(path)).live[:3])
    table.compact(packstone.SegmentOptions(strategy="custom", ids=ids))
    table.segments.load(rows(5000))
    table.segments.delete_rows("id >= 5100 AND id < 5200")
    return path


@pytest.fixture
def copy(made, tmp_path):
    """A copy that a test may damage, at a path of its own."""
    return shutil.copytree(made, tmp_path / "t")


def forget():
    """Read files again, as a new process would."""
    process_caches().clear()
    status_files._CHUNKS.clear()
    status_files._VERSIONS.clear()


def files_of(path, pattern):
    """The files of a table, in order."""
    return sorted(one for one in path.glob(pattern) if one.is_file())


def damaged(path, *, deep=False, version=None):
    """The names of the files that a check reports."""
    forget()
    report = packstone.open(str(path)).check(deep=deep, version=version)
    assert report.damaged == len(report.damage)
    return sorted({Path(one.file).name for one in report.damage})


def test_a_sound_table(made):
    """Nothing is reported, at any depth and version, and nothing is written."""
    before = sorted(made.parent.rglob("*"))
    assert damaged(made) == damaged(made, deep=True) == damaged(made, version=20) == []
    report = packstone.open(str(made)).check(deep=True)
    assert (report.rows, report.version) == (17 * 100 + 3000 - 100, read_latest(IO, str(made)).version)
    assert sorted(made.parent.rglob("*")) == before
    with pytest.raises(InvalidInputError, match="has no version 999"):
        packstone.open(str(made)).check(version=999)


@pytest.mark.parametrize(
    "pattern",
    [
        *("Fact/*/*.parquet", "Metadata/segments/*", "Metadata/index/*"),
        *("Metadata/entries/*", "Metadata/status/*", "Metadata/deletes/*"),
    ],
)
def test_a_missing_or_changed_file_of_a_segment_table(copy, pattern):
    """A file that is lost, cut, or has a flipped bit is named, and no other one."""
    live = {one.segment_file for one in read_latest(IO, str(copy)).live}
    wanted = [one for one in files_of(copy, pattern) if is_needed(copy, one, live)]
    path = wanted[len(wanted) // 2]
    content = path.read_bytes()
    flipped = bytearray(content)
    flipped[60 if path.suffix == ".parquet" else len(content) // 2] ^= 1  # of a data file: in its first page
    for change in (content[:-7], bytes(flipped), None):
        path.unlink()
        if change is not None:
            path.write_bytes(change)
        found = damaged(copy, deep=path.suffix == ".parquet")
        assert found == [path.name], (pattern, change is None)
        if path.parent.name != "status":  # of an older version, which a scan does not read
            with pytest.raises(PackstoneError, match=path.name):
                packstone.open(str(copy)).scan().to_arrow()
    path.write_bytes(content)
    assert damaged(copy) == []


def test_a_bloom_filter_that_lost_a_bit(copy):
    """It would hide rows: a scan that uses it names the file, and so does a check; other scans read every row."""
    name = f"n{7}" * 60
    table = packstone.open(str(copy))
    found = table.scan(["id"], f"name = '{name}'").to_arrow().num_rows
    segment = read_segment(IO, str(copy), read_latest(IO, str(copy)).live[-1])
    path = copy / segment.files[0].path
    chunk = pq.read_metadata(path).row_group(0).column(1)
    content = bytearray(path.read_bytes())
    at = next(at for at in range(chunk.bloom_filter_offset + 40, len(content)) if content[at])
    content[at] &= content[at] - 1
    path.write_bytes(content)
    assert damaged(copy) == [path.name]
    with pytest.raises(CorruptionError, match=path.name):
        table.scan(["id"], f"name = '{name}'").to_arrow()
    assert table.scan(["id"], f"name LIKE '{name}%'").to_arrow().num_rows == found


@pytest.mark.parametrize("content", [b"", b"\0\0\0", b"{", b"7" * 30, b'{"version":44}', None])
def test_a_damaged_hint(copy, content):
    """Readers search for the newest version without it, but would not notice that the newest ones are lost."""
    hint = copy / "Metadata/latest"
    before = hint.read_bytes()
    other = b"1" if before[-3:-2] == b"0" else b"0"
    hint.write_bytes(before[:-3] + other + before[-2:] if content is None else content)
    assert damaged(copy) == ["latest"]
    forget()
    assert packstone.open(str(copy)).scan().count() == 17 * 100 + 3000 - 100
    hint.unlink()
    assert damaged(copy) == []


def test_a_footer_that_lost_a_bit(copy):
    """A wrong bound hides rows from every reader: a scan and a check name the file, and so for the page indexes."""
    segment = read_segment(IO, str(copy), read_latest(IO, str(copy)).live[-1])
    path = copy / segment.files[0].path
    content = path.read_bytes()
    chunk = pq.read_metadata(path).row_group(0).column(1)
    blooms_end = max(
        pq.read_metadata(path).row_group(at).column(1).bloom_filter_offset + chunk.bloom_filter_length
        for at in range(3)
    )
    footer = len(content) - 8 - int.from_bytes(content[-8:-4], "little")
    assert blooms_end < footer
    bound = content.rindex((5999).to_bytes(8, "little"))  # the largest id of the second row group
    assert bound > footer
    for at in (bound, *range(blooms_end, len(content), 7)):
        changed = bytearray(content)
        changed[at] ^= 2
        path.write_bytes(changed)
        assert damaged(copy) == [path.name], at
        if at > footer:
            with pytest.raises(CorruptionError, match=path.name):
                packstone.open(str(copy)).scan(["id"], "id >= 5000 AND price < 1e9").to_arrow()
    path.write_bytes(content)
    assert damaged(copy) == []


@pytest.mark.parametrize("bound", [5999, 5000])
def test_a_wrong_bound_in_a_footer_of_an_older_packstone(copy, bound):
    """Its segment file has no digest of the footer; the index has the bounds that were written."""
    entry = read_latest(IO, str(copy)).live[-1]
    segment = read_segment(IO, str(copy), entry)
    record = copy / "Metadata/segments" / entry.segment_file
    text = re.sub(r',"(page_index_crc|footer_digest)":("[0-9a-f]+"|\d+)', "", record.read_text())
    record.write_bytes(seal((text[: text.rindex(',"digest"')] + "}").encode()))
    assert not read_segment(IO, str(copy), entry).files[0].footer_digest
    assert damaged(copy) == []
    path = copy / segment.files[0].path
    content = bytearray(path.read_bytes())
    content[content.rindex(bound.to_bytes(8, "little")) + 1] ^= 2
    path.write_bytes(content)
    assert damaged(copy) == [path.name]


def is_needed(table, path, live):
    """Whether the newest version names a file, or it is the head of a version."""
    if path.parent.name == "deletes":
        return True
    if path.parent.name in ("status", "entries"):
        return path.name != files_of(table, "Metadata/status/*")[-1].name
    if path.suffix == ".parquet":
        names = [json.loads((table / "Metadata/segments" / name).read_bytes()) for name in live]
        return any(str(path).endswith(file["path"]) for one in names for file in one["files"])
    return f"{path.stem}.json" in live


@pytest.mark.parametrize("column", ["max.id", "min.price", "nulls.name", "end.id", "size_bytes", "exact.name"])
def test_an_index_that_does_not_agree_with_its_data(copy, column):
    """A wrong bound, null count or size is found although every checksum is right."""
    table, status = str(copy), read_latest(IO, str(copy))
    entry = status.live[-1]
    segment = read_segment(IO, table, entry)
    index = read_index(IO, table, segment)
    at = index.schema.get_field_index(column)
    values = index.column(column).to_pylist()
    values[0] = (not values[0]) if isinstance(values[0], bool) else values[0] - 1
    wrong = index.set_column(at, index.schema.field(column), pa.array(values, index.schema.field(column).type))
    path = copy / "Metadata/index" / segment.index_file
    path.unlink()
    written = write_index(IO, str(path), wrong)
    record = copy / "Metadata/segments" / entry.segment_file
    text = record.read_text().replace(segment.index_digest, written.digest)
    record.write_bytes(seal((text[: text.rindex(',"digest"')] + "}").encode()))
    (name,) = {Path(file.path).name for file in segment.files}
    assert damaged(copy, deep=True) == [name]
    # A footer has neither the last row of a row group, nor whether a bound is exact, nor bounds if there is a NaN.
    assert damaged(copy) == ([] if column in ("end.id", "exact.name", "min.price") else [name])


def test_a_flipped_bit_anywhere_is_harmless_or_named(made, tmp_path):
    """Every kind of file of a segment table: the same rows, or one error that names the file."""
    flip_everywhere(made, tmp_path, flips=60, seed=1)


@pytest.mark.soak
def test_many_flipped_bits(made, tmp_path):
    """The long form."""
    flip_everywhere(made, tmp_path, flips=6_000, seed=2)


def flip_everywhere(made, tmp_path, *, flips, seed):
    """Flip bits one after another, of each kind of file equally often."""
    rng, table = random.Random(seed), shutil.copytree(made, tmp_path / "flips")
    kinds = [files_of(table, f"{kind}/**/*") for kind in ("Fact", *(f"Metadata/{one}" for one in METADATA))]
    kinds = [files for files in [*kinds, [table / "Metadata" / "latest"]] if files]
    assert len(kinds) >= 7
    wanted = read_all(table)
    live = {one.segment_file for one in read_latest(IO, str(table)).live}
    for number in range(flips):
        path = rng.choice(kinds[number % len(kinds)])
        content = path.read_bytes()
        if not content:
            continue
        # Half of the flips are in the last tenth: there are the footers.
        at = rng.randrange(len(content) * 9 // 10 if number % 2 else 0, len(content))
        changed = bytearray(content)
        changed[at] ^= 1 << rng.randrange(8)
        path.write_bytes(changed)
        try:
            found = read_all(table)
        except PackstoneError as error:
            found = wanted if path.name in error.message else error.message
        # A footer is also read by other readers, which know no checksum of it.
        is_footer = at >= len(content) - 8 - int.from_bytes(content[-8:-4], "little")
        is_read = path.suffix == ".parquet" and is_footer and is_needed(table, path, live)
        is_seen = not is_read or damaged(table) == [path.name]
        path.write_bytes(content)
        assert found == wanted, f"{path}: bit flipped at {at}"
        assert is_seen, f"{path}: bit flipped at {at} is not found"
    assert read_all(table) == wanted


METADATA = ("status", "entries", "segments", "index", "retired", "deletes")


def read_all(table):
    """All rows, and those that a filter finds, as a new process reads them."""
    forget()
    opened = packstone.open(str(table))
    whole = opened.scan().to_arrow().sort_by("id")
    some = opened.scan(["id", "name"], "id >= 1500 AND id < 5600 AND name LIKE 'n7%'").to_arrow().sort_by("id")
    name = f"n{7}" * 60
    equal = opened.scan(["id"], f"name = '{name}'").to_arrow().sort_by("id")
    return repr(whole.to_pylist()), some.to_pylist(), equal.to_pylist()


def test_a_paimon_table(tmp_path):
    """A missing data file, a missing manifest and a changed page are named; the snapshot can be chosen."""
    table = shutil.copytree(PAIMON, tmp_path / "orders")
    assert damaged(table) == damaged(table, deep=True) == damaged(table, version=3) == []
    first, second = files_of(table, "dt=2024-05-02/bucket-1/*.parquet")[:2]
    first.unlink()
    content = bytearray(second.read_bytes())
    content[60] ^= 1
    second.write_bytes(content)
    assert damaged(table) == [first.name]
    assert damaged(table, deep=True) == sorted([first.name, second.name])
    snapshot = json.loads((table / "snapshot" / "snapshot-17").read_bytes())
    (table / "manifest" / snapshot["deltaManifestList"]).unlink()
    assert damaged(table) == [snapshot["deltaManifestList"]]
    with pytest.raises(InvalidInputError, match="has no snapshot 99"):
        damaged(table, version=99)


def test_rows_that_a_paimon_manifest_does_not_record(tmp_path):
    """A data file with other rows than its manifest says is found, even if its size is right."""
    table = shutil.copytree(PAIMON, tmp_path / "orders")
    snapshot_file = table / "snapshot" / "snapshot-17"
    snapshot = json.loads(snapshot_file.read_bytes())
    snapshot["totalRecordCount"] += 1
    snapshot_file.write_text(json.dumps(snapshot))
    assert damaged(table) == ["snapshot-17"]


def test_a_hive_directory(tmp_path):
    """A cut file is found by its footer, a changed page by a deep check; there are no versions."""
    table = tmp_path / "t"
    (table / "p=1").mkdir(parents=True)
    for name in "abc":
        data = pa.table({"n": list(range(5000))})
        pq.write_table(data, table / "p=1" / f"{name}.parquet", write_page_checksum=True)
    assert damaged(table) == damaged(table, deep=True) == []
    content = (table / "p=1" / "a.parquet").read_bytes()
    (table / "p=1" / "a.parquet").write_bytes(content[:-9])
    changed = bytearray(content)
    changed[200] ^= 8
    (table / "p=1" / "b.parquet").write_bytes(changed)
    assert damaged(table) == ["a.parquet"]
    assert damaged(table, deep=True) == ["a.parquet", "b.parquet"]
    with pytest.raises(InvalidInputError, match="no versions"):
        damaged(table, version=1)


def test_the_command(copy, packstone, tmp_path):
    """Exit code 0 for a sound table and 1 for damage, the same JSON on the terminal and in --output."""
    sound = packstone("check", copy, "--format", "json", "--output", tmp_path / "r.json")
    assert (sound.code, sound.json["status"], sound.json["damage"]) == (0, "sound", [])
    assert json.loads((tmp_path / "r.json").read_text()) == sound.json
    assert "no damage found" in packstone("check", copy).out
    live = {one.segment_file for one in read_latest(IO, str(copy)).live}
    lost = next(one for one in files_of(copy, "Fact/*/*.parquet") if is_needed(copy, one, live))
    lost.unlink()
    done = packstone("check", copy, "--deep")
    assert done.code == 1
    assert lost.name in done.out
    assert packstone("check", copy, "--format", "json").json["damaged"] == 1


def cut_short(path):
    """A file of 50 rows with a flipped bit in a page header, of which PyArrow decodes fewer rows without an error."""
    pq.write_table(pa.table({"dt": ["2024-05-01"] * 50}), path, store_schema=False)
    content = path.read_bytes()
    for at in range(4, len(content) - 100):
        changed = bytearray(content)
        changed[at] ^= 64
        path.write_bytes(bytes(changed))
        try:
            if pq.read_table(path).num_rows < 50:
                return path
        except (OSError, ValueError):
            continue
    raise AssertionError("no bit cuts the file short")


def test_a_file_that_decodes_to_fewer_rows(tmp_path):
    """PyArrow ends at some damaged page headers as if the file ended there: check and load name the file."""
    lake = tmp_path / "lake"
    lake.mkdir()
    path = cut_short(lake / "a.parquet")
    assert damaged(lake, deep=True) == ["a.parquet"]
    table = packstone.create(str(tmp_path / "t"), "dt string")
    with pytest.raises(PackstoneError, match=r"a\.parquet"):
        table.segments.load(str(path))
    assert table.scan().to_arrow().num_rows == 0


def test_a_column_that_lost_its_name(tmp_path):
    """A data file of a Paimon table without a column of its schema cannot be read."""
    copy = shutil.copytree(PAIMON, tmp_path / "t")
    path = next(one for one in files_of(copy, "*/bucket-0/*.parquet") if b"_SEQUENCE_NUMBER" in one.read_bytes())
    content = path.read_bytes()
    path.write_bytes(content.replace(b"_SEQUENCE_NUMBER", b"_SEQUENCE_NUMBFR"))
    assert damaged(copy) == [path.name]
    path.write_bytes(content)
    assert damaged(copy, deep=True) == []
