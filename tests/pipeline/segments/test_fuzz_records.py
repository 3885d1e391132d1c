"""Records of a segment table, changed at random: the right rows or a sentence, nothing outside touched, no hang.

A change is of bytes, of names (lost, exchanged), or of values in the JSON; of the last kind many get a digest that is
right again, or claim to be of the format that had none, as somebody would do who means harm.
"""

import copy
import json
import random
import shutil
import signal
from dataclasses import replace

import pytest
from patience import patient
from segment_lake import SegmentLake, open_run, record_files

from packstone.errors import PackstoneError
from packstone.model.codec import seal
from packstone.model.segment import SegmentId
from packstone.pipeline.table import Table
from packstone.query.scan.caches import process_caches
from packstone.runs.clock import now_ms, system_clock
from packstone.runs.liveness import ProcessIdentity
from packstone.storage.local import LocalFileIO
from packstone.tables.segments.format.commit import commit_edit
from packstone.tables.segments.format.edits import begin_compaction
from packstone.tables.segments.health import observe_segments
from packstone.tables.segments.options import SegmentOptions

IO = LocalFileIO()
ROWS = list(range(10, 50))
SECONDS = patient(60)  # a case takes a tenth of one
HOSTILE = (
    None, True, False, 0, -1, 1, 7, 2**31, 2**63 - 1, 2**63, 10**40, 0.5, 1e308, "", ".", "..", "a/b", "/etc/passwd",
    "../../outside/secret.txt", "../../../outside/secret.txt", "x\0y", "x\ny", "0", "success", "in-progress", "𝄞" * 3,
    "x" * 5000, [], {}, [[]], [None], {"load": 0}, [{"load": -1, "merges": 2}],
)  # fmt: skip


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    """A table with live, deleted, merged and cleaned segments, a dead compaction, and files beside it."""
    root = tmp_path_factory.mktemp("fuzz")
    lake = SegmentLake(root / "lake" / "t")
    lake.create(SORT_COLUMNS="id", SEGMENT_RETENTION_DAYS=0, MAX_QUERY_MINUTES=1)
    lake.load([{"id": at, "v": "x"} for at in range(5)])
    lake.delete("0")
    clean_at(lake.table, now_ms() + 7_200_000)
    for load in range(1, 5):
        lake.load([{"id": 10 * load + at, "v": f"v{at}"} for at in range(10)], files=2, group_rows=3)
    lake.load([{"id": at, "v": "x"} for at in range(5)])
    lake.delete("5")
    Table(lake.table, io=IO).compact(SegmentOptions(strategy="custom", ids=(SegmentId(1), SegmentId(2))))
    attempt, inputs = "dead0000dead0000", (SegmentId(3), SegmentId(4))
    dead = replace(ProcessIdentity.mine(), pid=2**22 + 1, started_ticks=1)
    open_run(IO, lake.table, process=dead, command="compact", run=attempt)
    made = f"Fact/Segment_3.1/part-00000-00000-{attempt}-0.parquet"
    record_files(IO, lake.table, attempt, made)
    (lake.path / made).parent.mkdir()
    (lake.path / made).write_bytes(b"half")
    edit = {"attempt": attempt, "inputs": inputs, "output": SegmentId(3, 1), "now_ms": now_ms()}
    commit_edit(IO, lake.table, lambda one: begin_compaction(one, **edit), clock=system_clock(), operation="compact")
    (root / "lake" / "outside").mkdir()
    for folder in (root / "lake" / "outside", root / "lake"):
        (folder / "secret.txt").write_text("precious")
    shutil.copytree(root / "lake", root / "aside")  # records name whole paths: each case is at the same place
    return root / "lake"


def clean_at(table, moment):
    """Clean as of a moment."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("packstone.tables.segments.table.now_ms", lambda: moment)
        return Table(table, io=IO).clean(dry_run=False)


def read_rows(table):
    """The ids of all rows, and those that filters find."""
    process_caches().clear()
    opened = Table(table)
    found = sorted(opened.scan(["id"]).to_arrow().column("id").to_pylist())
    some = sorted(opened.scan(["id"], "id >= 15 AND id < 25").to_arrow().column("id").to_pylist())
    return found, some


def change_bytes(rng, path):
    """Flip, cut, insert or repeat bytes."""
    data = bytearray(path.read_bytes())
    at, length = rng.randrange(len(data) + 1), rng.choice([1, 1, 4, 50])
    match rng.randrange(5):
        case 0 if at < len(data):
            data[at] ^= 1 << rng.randrange(8)
        case 1:
            del data[at:]
        case 2:
            del data[at : at + length]
        case 3:
            data[at:at] = rng.randbytes(length)
        case _:
            data[at:at] = data[at : at + length]
    path.write_bytes(bytes(data))


def change_value(rng, path):
    """Change one value of the JSON, anywhere; then seal it, claim the format without a digest, or leave the digest."""
    plain = json.loads(path.read_bytes())
    places = list(walk(plain, ()))
    where = rng.choice(places)
    holder = plain
    for step in where[:-1]:
        holder = holder[step]
    match rng.randrange(4):
        case 0:
            del holder[where[-1]]
        case 1:
            holder[where[-1]] = copy.deepcopy(get(plain, rng.choice(places)))
        case _:
            holder[where[-1]] = rng.choice(HOSTILE)
    digest = plain.pop("digest", None) if isinstance(plain, dict) else None
    text = json.dumps(plain, separators=(",", ":")).replace(',"entries":', ',\n"entries":')
    match rng.randrange(4):
        case 0:
            text = text.replace('"format_version":2', '"format_version":1', 1)
        case 1 if digest is not None:
            text = f'{text[:-1]},"digest":"{digest}"}}'
        case _:
            text = seal(text.encode()).decode()
    path.write_bytes(text.encode())


def walk(plain, where):
    """The places of all values."""
    if isinstance(plain, dict | list):
        for key, value in plain.items() if isinstance(plain, dict) else enumerate(plain):
            yield (*where, key)
            yield from walk(value, (*where, key))


def get(plain, where):
    """The value at a place."""
    for step in where:
        plain = plain[step]
    return plain


def change(rng, table):
    """Change one record; say what was done."""
    records = [*(table / "Metadata").rglob("*"), *(table.parent / ".packstone").rglob("*")]
    records = sorted(path for path in records if path.is_file() and path.name != "heartbeat")
    path = rng.choice(records)
    choice = rng.random()
    is_json = path.suffix == ".json" or path.name == "latest"
    if is_json and choice < 0.6:
        change_value(rng, path)
        return f"value of {path.name}"
    if choice < 0.9 and path.stat().st_size:
        change_bytes(rng, path)
        return f"bytes of {path.name}"
    other = rng.choice(records)
    match rng.randrange(3):
        case 0:
            path.unlink()
            return f"without {path.name}"
        case 1:
            path.write_bytes(other.read_bytes())
            return f"{other.name} over {path.name}"
    path.rename(path.with_name(rng.choice(["9" * 20 + path.suffix, "x", other.name])))
    return f"{path.name} under another name"


def outside_of(root):
    """What is beside the table and its records."""
    own = {root / "t", root / ".packstone"}
    return {
        path: path.read_bytes() for path in root.rglob("*") if path.is_file() and not own.intersection(path.parents)
    }


def check(root, seed):
    """One case: change a record, use the table in every way."""
    rng = random.Random(seed)
    shutil.rmtree(root, ignore_errors=True)
    shutil.copytree(root.parent / "aside", root)
    what = f"case {seed}: {change(rng, root / 't')}"
    table, before = str(root / "t"), outside_of(root)
    later = now_ms() + 7_200_000
    uses = [
        lambda: read_rows(table),
        lambda: observe_segments(IO, table, now_ms=now_ms()),
        lambda: Table(table, io=IO).plan(SegmentOptions(strategy="minor")).outcome,
        lambda: Table(table, io=IO).compact(SegmentOptions(strategy="major")),
        lambda: clean_at(table, later),
        lambda: read_rows(table),
    ]
    if rng.random() < 0.7:
        del uses[3]
    for use in uses:
        found = attempt_use(use, what)
        if isinstance(found, str):
            assert "\n" not in found, f"{what}: {found}"
            assert found.endswith("."), f"{what}: {found}"
        elif isinstance(found, tuple):
            assert found == (ROWS, list(range(15, 25))), what
    assert outside_of(root) == before, what


def attempt_use(use, what):
    """What it answers, or the sentence; any other error is a finding."""
    try:
        return use()
    except PackstoneError as error:
        return error.message
    except Exception as error:  # noqa: BLE001 - whatever it is
        return pytest.fail(f"{what}: {type(error).__name__}: {error}")


def hang(*_):
    """Too long."""
    raise TimeoutError("hangs")


def check_all(base, seeds):
    """Many cases, none of which may hang; findings together."""
    findings = []
    previous = signal.signal(signal.SIGALRM, hang)
    try:
        for seed in seeds:
            signal.alarm(SECONDS)
            try:
                check(base, seed)
            except (AssertionError, pytest.fail.Exception) as error:
                findings.append(str(error).splitlines()[0])
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, previous)
    assert not findings, "\n".join([f"{len(findings)} findings", *findings[:40]])


def test_the_table_is_whole_without_a_change(base):
    """Else the cases would prove nothing."""
    assert read_rows(str(base / "t")) == (ROWS, list(range(15, 25)))


def test_changed_records(base):
    """The right rows or a sentence, whatever record is changed."""
    check_all(base, range(60))


@pytest.mark.soak
@pytest.mark.timeout(7200)
def test_many_changed_records(base):
    """The long form."""
    check_all(base, range(1_000, 6_000))
