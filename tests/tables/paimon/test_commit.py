"""Commits of edits: what a snapshot holds, what a conflict costs, how races and lost answers end.

Tables are appended to by a writer that is not ours, and checked by code that is not ours (tests/paimon_lake.py).
"""

import json
from dataclasses import replace

import fastavro
import pytest
from paimon_interop.table_files import TableFiles
from paimon_lake import PaimonLake, options, tools, write_avro

from packstone.errors import (
    CommitUnknownError,
    ConflictError,
    CorruptionError,
    InvalidInputError,
    RefusedError,
    UnavailableError,
)
from packstone.storage.faulty import Action, Fault, FaultyFileIO, Moment
from packstone.storage.fileio import Capabilities
from packstone.storage.local import LocalFileIO
from packstone.tables.paimon.commit import Published, RetryWait, check_published, commit_edits
from packstone.tables.paimon.draft import MergeLimits
from packstone.tables.paimon.expire import RetentionOptions, expire, plan_expiry
from packstone.tables.paimon.format.data_file import EMPTY_ROW, FileKind
from packstone.tables.paimon.format.live_files import read_live_files
from packstone.tables.paimon.format.manifest_list import (
    DELETION_VECTORS,
    HASH,
    DeletionVectorRange,
    IndexEntry,
    read_index_manifest,
    write_index_manifest,
)
from packstone.tables.paimon.format.snapshot import read_latest_snapshot

ONE = RetentionOptions(retained_min=1, time_retained_ms=0)


@pytest.fixture
def lake(tmp_path):
    """A table of two buckets after three commits that overlap."""
    lake = PaimonLake(tmp_path / "t").create()
    for first in (0, 5, 10):
        lake.append(dict.fromkeys(range(first, first + 10), first))
    return lake


def commit(lake, edits, io=None, *, earlier=(), using=None, **other):
    """Commit with the tests' options."""
    return commit_edits(
        io or LocalFileIO(), lake.table, edits, options=options(**other), **(using or tools()), earlier=earlier
    )


def test_a_compaction_is_one_snapshot(lake):
    """Two buckets become one COMPACT snapshot with the fields that Java would write; the rows stay."""
    before = lake.rows()
    report = commit(lake, lake.compaction(), identifier=7)
    assert (report.snapshot_id, report.attempts, report.conflicting) == (4, 1, ())
    assert len(report.committed) == 2
    snapshot = lake.snapshot(4)
    assert {name: snapshot[name] for name in ("version", "commitKind", "commitUser", "commitIdentifier")} == {
        "version": 3,
        "commitKind": "COMPACT",
        "commitUser": "packstone",
        "commitIdentifier": 7,
    }
    assert snapshot["writerVersion"] == "packstone-test"
    assert (snapshot["totalRecordCount"], snapshot["deltaRecordCount"]) == (20, -10)
    assert snapshot["nextRowId"] == 0
    assert "changelogManifestList" not in snapshot
    assert (lake.path / "snapshot/LATEST").read_text() == "4"
    assert lake.rows() == before
    assert lake.problems() == []


def test_inputs_are_never_deleted(lake):
    """A commit adds names and removes none."""
    edits = lake.compaction()
    before = lake.names()
    commit(lake, edits)
    assert before <= lake.names()


def test_what_a_compaction_does_not_change_is_inherited(lake):
    """Watermark, index manifest, next row id, statistics and the largest sequence number go on; the rest is its own."""
    path = lake.path / "snapshot/snapshot-3"
    (lake.path / "statistics").mkdir()
    (lake.path / "statistics/stat-1").write_text(json.dumps({"schemaId": 0}))
    write_index_manifest(LocalFileIO(), f"{lake.table}/manifest", [index("h", (), HASH)], name="index-manifest-1")
    told = {
        "watermark": 99,
        "indexManifest": "index-manifest-1",
        "nextRowId": 12,
        "statistics": "stat-1",
        "properties": {"sequence.generation.max-sequence-number": "5", "job": "x"},
        "operation": "WRITE",
        "aFieldOfTomorrow": {"a": 1},
    }
    path.write_text(json.dumps(lake.snapshot(3) | told))
    (edit, _) = edits = lake.compaction()
    commit(lake, edits)
    found = lake.snapshot(4)
    kept = ("watermark", "indexManifest", "nextRowId", "statistics", "aFieldOfTomorrow")
    assert {name: found[name] for name in kept} == {name: told[name] for name in kept}
    largest = max(e.after[0].max_sequence_number for e in edits)
    assert edit.after[0].max_sequence_number > 5
    assert found["properties"] == {"sequence.generation.max-sequence-number": str(largest)}
    assert "operation" not in found


@pytest.mark.parametrize("content", ['{"schemaId": 1}', "torn", "[]", None])
def test_statistics_in_doubt_are_dropped(lake, content):
    """Statistics of another schema, or that cannot be read, are not handed on."""
    (lake.path / "statistics").mkdir()
    if content is not None:
        (lake.path / "statistics/stat-1").write_text(content)
    (lake.path / "snapshot/snapshot-3").write_text(json.dumps(lake.snapshot(3) | {"statistics": "stat-1"}))
    commit(lake, lake.compaction())
    assert "statistics" not in lake.snapshot(4)


def test_the_schema_is_the_latest(lake):
    """A column added since the plan is not taken back by the commit."""
    edits = lake.compaction()
    schema = json.loads((lake.path / "schema/schema-0").read_text())
    schema["fields"].append({"id": 2, "name": "w", "type": "INT"})
    (lake.path / "schema/schema-1").write_text(json.dumps(schema | {"id": 1, "highestFieldId": 2}))
    commit(lake, edits)
    assert lake.snapshot(4)["schemaId"] == 1


def test_rows_are_counted_where_nobody_did(lake):
    """A snapshot of a writer of long ago has no count; the files tell."""
    old = lake.snapshot(3)
    del old["totalRecordCount"], old["deltaRecordCount"]
    (lake.path / "snapshot/snapshot-3").write_text(json.dumps(old))
    commit(lake, lake.compaction())
    assert lake.snapshot(4)["totalRecordCount"] == 20


def test_appends_since_the_plan_are_kept(lake):
    """Rows that arrive between plan and commit are in the result."""
    edits = lake.compaction()
    lake.append({3: 333, 100: 100})
    before = lake.rows()
    assert commit(lake, edits).snapshot_id == 5
    assert lake.rows() == before
    assert before[None, 3] == 333
    assert lake.problems() == []


def test_a_conflicting_bucket_is_left_out(lake):
    """Somebody compacted bucket 0 in the meantime: bucket 1 is committed, bucket 0 is reported with the reason."""
    edits = lake.compaction()
    commit(lake, lake.compaction(buckets=[0]))
    before = lake.rows()
    report = commit(lake, edits)
    assert [bucket for _, bucket in report.committed] == [1]
    assert [(c.bucket, "no longer live" in c.why) for c in report.conflicting] == [(0, True)]
    assert lake.rows() == before
    assert lake.problems() == []


def test_nothing_is_published_if_all_conflict(lake):
    """The second of two equal compactions publishes nothing and leaves no file behind."""
    edits = lake.compaction()
    commit(lake, edits)
    names = lake.names()
    report = commit(lake, edits)
    assert (report.published, report.snapshot_id, report.committed) == (None, None, ())
    assert len(report.conflicting) == 2
    assert lake.names() == names


def test_overlap_on_a_level_is_a_conflict(lake):
    """Two jobs that each compact their own level-0 files to one level: the second is refused (apache/paimon#224)."""
    first = lake.compaction(buckets=[0])
    lake.append(dict.fromkeys(range(0, 20, 2), 77))
    later = lake.compaction(buckets=[0])[0]
    own = replace(later, before=tuple(file for file in later.before if file not in first[0].before))
    commit(lake, first)
    report = commit(lake, [own])
    assert report.snapshot_id is None
    assert "overlap on level 5" in report.conflicting[0].why


def test_an_upgrade_deletes_before_it_adds(tmp_path):
    """A file that moves up keeps its name: DELETE first, or expiry would remove it later."""
    lake = PaimonLake(tmp_path / "t", buckets=1).create()
    lake.append({1: 1})
    (found,) = read_live_files(LocalFileIO(), lake.table, read_latest_snapshot(LocalFileIO(), lake.table), lean=True)
    (edit,) = lake.compaction()
    upgrade = replace(edit, before=found.files, after=(replace(found.files[0], level=5),))
    commit(lake, [upgrade])
    (entry,) = lake.live()
    assert entry.file["_LEVEL"] == 5
    assert entry.file["_KEY_STATS"]["_NULL_COUNTS"] == [0]  # the plan had read no statistics, the table has them
    assert lake.problems() == []


def test_a_rewrite_to_nothing_is_legal(lake):
    """If all rows were deleted there is no output."""
    edits = [replace(edit, after=()) for edit in lake.compaction()]
    commit(lake, edits)
    assert lake.rows() == {}
    assert lake.snapshot(4)["totalRecordCount"] == 0


class Rival(LocalFileIO):
    """A store where somebody else commits just before we publish, some times."""

    def __init__(self, lake, times, act=None):
        self.lake, self.times = lake, times
        self.act = act or (lambda: lake.append({1000 + self.times: 1}))

    def write_new(self, path, data, **options):
        """Let the rival go first."""
        if "/snapshot/snapshot-" in path and self.times:
            self.times -= 1
            self.act()
        super().write_new(path, data, **options)


@pytest.mark.parametrize("limits", [MergeLimits(min_count=2), MergeLimits(min_count=100)])
def test_a_lost_race_is_tried_again(lake, limits):
    """Three rivals are quicker; the fourth attempt builds on theirs, and no manifest of a failed one is left."""
    edits = lake.compaction()
    waits = []
    report = commit(lake, edits, Rival(lake, 3), using=tools(sleep=waits.append), merge=limits)
    assert (report.snapshot_id, report.attempts) == (7, 4)
    assert waits[:3] == [0.0011, 0.0022, 0.0044]
    assert lake.problems() == []
    assert sorted(at for _, at in lake.rows()) == [*range(20), 1000, 1001, 1002]
    assert unreferenced(lake) == set()


def test_a_late_hint_is_not_written(lake):
    """Somebody commits between our publish and our hint: theirs stands, because a hint may only move forward."""

    class Slow(LocalFileIO):
        def write_new(self, path, data, **options):
            super().write_new(path, data, **options)
            if path.endswith("/snapshot/snapshot-4"):
                lake.append({50: 50})

    commit(lake, lake.compaction(), Slow())
    assert (lake.path / "snapshot/LATEST").read_text() == "5"
    assert lake.ids() == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("moment", ["before", "while"])
def test_a_number_that_expired_is_not_free(lake, moment):
    """A commit that stalls until its number is used and expired does not publish below the newest snapshot."""

    def overtake():
        for at in range(3):
            lake.append({100 + at: at})
        expire(LocalFileIO(), plan_expiry(LocalFileIO(), lake.table, ONE, now_ms=10**15))

    class Stalled(LocalFileIO):
        stalls = 1

        def write_new(self, path, data, **options):
            if ("/manifest/manifest-list" if moment == "before" else "/snapshot/snapshot-4") in path and self.stalls:
                self.stalls = 0
                overtake()
            super().write_new(path, data, **options)

    before = lake.rows()
    store = Stalled()
    report = commit(lake, lake.compaction(), store)
    assert store.stalls == 0
    assert report.snapshot_id == 7
    assert lake.ids() == [6, 7]
    assert lake.rows() == before | {(None, 100): 0, (None, 101): 1, (None, 102): 2}


def test_giving_up_leaves_nothing(lake):
    """When every race is lost it says so, and what it wrote is gone."""
    edits = lake.compaction()
    with pytest.raises(ConflictError, match="3 attempts to commit lost the race"):
        commit(lake, edits, Rival(lake, 9), retry=RetryWait(max_retries=2, min_ms=0, max_ms=0))
    assert lake.problems() == []
    assert unreferenced(lake) == set()


def test_a_conflict_that_comes_with_the_race_is_found(lake):
    """The rival compacts bucket 0 while we try to publish both: the retry drops bucket 0 and commits bucket 1."""
    edits = lake.compaction()
    rival = Rival(lake, 1, act=lambda: commit(lake, lake.compaction(buckets=[0])))
    report = commit(lake, edits, rival)
    assert [bucket for _, bucket in report.committed] == [1]
    assert [conflict.bucket for conflict in report.conflicting] == [0]
    assert lake.problems() == []
    assert unreferenced(lake) == set()


def test_an_overwrite_in_between_is_read_whole(lake):
    """An OVERWRITE's delta may not tell all (a rollback): the retry reads its files anew."""

    def overwrite():
        latest = lake.latest()
        old = lake.snapshot(2)
        lake.publish(
            latest
            | {
                "id": latest["id"] + 1,
                "uuid": "x",
                "commitKind": "OVERWRITE",
                "baseManifestList": old["baseManifestList"],
                "deltaManifestList": old["deltaManifestList"],
                "totalRecordCount": old["totalRecordCount"],
            }
        )

    edits = lake.compaction()
    report = commit(lake, edits, Rival(lake, 1, act=overwrite))
    assert report.snapshot_id is None
    assert len(report.conflicting) == 2
    assert unreferenced(lake) == set()


def unreferenced(lake):
    """Manifests that no snapshot names."""
    names = {p.name for p in (lake.path / "manifest").iterdir()}
    files = TableFiles(lake.path)
    for snapshot in files.snapshots:
        for which in ("baseManifestList", "deltaManifestList"):
            names -= {snapshot[which], *(m["_FILE_NAME"] for m in files.manifests(snapshot[which]))}
    return names


class Forgetful(LocalFileIO):
    """A store that fails to answer once when a snapshot is published, before or after it did it."""

    def __init__(self, *, happens, times=1):
        self.happens, self.times = happens, times

    def write_new(self, path, data, **options):
        """Fail on a snapshot."""
        if "/snapshot/snapshot-" in path and self.times:
            self.times -= 1
            if self.happens:
                super().write_new(path, data, **options)
            raise OSError(5, "Input/output error", path)
        super().write_new(path, data, **options)


@pytest.mark.parametrize("happens", [True, False])
def test_a_lost_answer_is_looked_up(lake, happens):
    """Whether the failed publish happened or not: one snapshot of ours, once, and the rows are right."""
    before = lake.rows()
    report = commit(lake, lake.compaction(), Forgetful(happens=happens))
    assert report.snapshot_id == 4
    assert report.attempts == (1 if happens else 2)
    assert lake.ids() == [1, 2, 3, 4]
    assert lake.rows() == before
    assert lake.problems() == []


def test_an_outcome_that_stays_unknown_is_reported(lake):
    """If the store never answers, nothing is removed and the message says what to look for."""
    with pytest.raises(CommitUnknownError, match="look for uuid"):
        commit(
            lake,
            lake.compaction(),
            Forgetful(happens=False, times=99),
            retry=RetryWait(max_retries=2, min_ms=0, max_ms=0),
        )
    assert len(unreferenced(lake)) > 3
    assert lake.problems() == []


class Late(LocalFileIO):
    """A store that publishes a snapshot only after it said that it failed: at the next look into the folder."""

    def __init__(self):
        self.pending = None

    def write_new(self, path, data, **options):
        """Keep the first one back."""
        if "/snapshot/snapshot-" in path and self.pending is None:
            self.pending = (path, data, options)
            raise TimeoutError(path)
        self.settle()
        super().write_new(path, data, **options)

    def settle(self):
        """Let it appear."""
        if self.pending:
            path, data, options = self.pending
            self.pending = ()
            super().write_new(path, data, **options)


def test_a_publish_that_happens_late_is_found(lake):
    """The same snapshot appears while the second attempt is made: it counts once."""
    before = lake.rows()
    report = commit(lake, lake.compaction(), Late())
    assert report.snapshot_id == 4
    assert lake.ids() == [1, 2, 3, 4]
    assert lake.rows() == before
    assert lake.problems() == []


@pytest.mark.parametrize("followers", [0, 2])
def test_a_publish_that_happened_before_we_look_is_found(lake, followers):
    """It appears while we wait, and others may have built on it since: it is ours, and no conflict with itself."""
    io = Late()

    def sleep(_seconds):
        if io.pending:
            io.settle()
            for number in range(followers):
                lake.append({100 + number: 1})

    report = commit(lake, lake.compaction(), io, using=tools(sleep=sleep))
    assert (report.snapshot_id, report.conflicting) == (4, ())
    assert len(report.committed) == 2
    assert lake.ids() == list(range(1, 5 + followers))
    assert lake.problems() == []


@pytest.mark.parametrize("at", ["hint", "settle"])
def test_an_interrupt_after_publishing_removes_nothing(lake, at):
    """Ctrl-C in the very moment after the snapshot appeared: it is published, with all that it needs."""

    class Interrupted(LocalFileIO):
        def replace(self, path, data, **options):
            if at == "hint":
                raise KeyboardInterrupt
            super().replace(path, data, **options)

    def sleep(_seconds):
        raise KeyboardInterrupt

    before = lake.rows()
    with pytest.raises(KeyboardInterrupt):
        commit(lake, lake.compaction(), Interrupted(), using=tools(sleep=sleep))
    assert lake.ids() == [1, 2, 3, 4]
    assert lake.rows() == before
    assert lake.problems() == []


def test_a_base_that_expires_while_it_is_read_is_not_a_broken_table(lake):
    """Others commit and expire what we build on, between two reads: the next attempt builds on the newest."""
    edits = lake.compaction()
    old = lake.latest()["deltaManifestList"]
    lake.append({100: 1})
    lake.append({101: 1})
    newest = lake.snapshot(5)
    for number in (4, 5):
        (lake.path / f"snapshot/snapshot-{number}").unlink()
    (lake.path / "snapshot/LATEST").write_text("3")

    class Expiring(LocalFileIO):
        def read_bytes(self, path):
            if path.endswith(old) and lake.ids() == [1, 2, 3]:
                lake.publish(newest)
                expire(LocalFileIO(), plan_expiry(LocalFileIO(), lake.table, ONE, now_ms=10**15))
            return super().read_bytes(path)

    report = commit(lake, edits, Expiring())
    assert (report.snapshot_id, report.attempts) == (6, 2)
    assert lake.problems() == []


def test_a_broken_base_is_reported(lake):
    """A list that is missing though its snapshot is the newest is not a race."""
    edits = lake.compaction()
    (lake.path / "manifest" / lake.latest()["deltaManifestList"]).unlink()
    with pytest.raises(CorruptionError, match="is missing"):
        commit(lake, edits)


def test_a_full_disk_leaves_nothing(lake):
    """A write that fails before publishing is one sentence, and what was written is removed again."""
    edits = lake.compaction()
    names = lake.names()
    for step in range(4):
        io = FaultyFileIO(LocalFileIO(), fault=Fault(step=step, action=Action.FAIL, moment=Moment.BEFORE))
        with pytest.raises(UnavailableError, match=r"The storage failed.* Nothing was committed\.$"):
            commit(lake, edits, io)
        assert lake.names() == names


def test_a_replaced_snapshot_is_reported(lake):
    """Another writer's rename lands on our number right after we published: told, and nothing of ours is removed.

    Not a plain conflict: whoever read ours in between may be building on it.
    """

    def replace_ours(_seconds):
        theirs = lake.snapshot(3) | {"id": 4, "uuid": "theirs", "commitUser": "slow"}
        (lake.path / "snapshot/snapshot-4").write_text(json.dumps(theirs))

    with pytest.raises(CommitUnknownError, match=r"snapshot-4, which packstone .* replaced by an APPEND of user slow"):
        commit(lake, lake.compaction(), using=tools(sleep=replace_ours))
    assert len(unreferenced(lake)) >= 4


def test_we_do_not_build_on_a_snapshot_of_ours_that_changed(lake):
    """A run's earlier snapshot is read again before the next group is committed."""
    first = commit(lake, lake.compaction(buckets=[0])).published
    theirs = lake.snapshot(3) | {"id": 4, "uuid": "theirs", "commitUser": "slow"}
    (lake.path / "snapshot/snapshot-4").write_text(json.dumps(theirs))
    names = lake.names()
    with pytest.raises(ConflictError, match="replaced"):
        commit(lake, lake.compaction(buckets=[1]), earlier=(first,))
    assert lake.ids() == [1, 2, 3, 4]
    assert {name for name in lake.names() - names if "bucket" not in name} == set()


def test_a_replaced_snapshot_below_later_ones_is_unknown(lake):
    """If somebody built on it already, nobody can say whose files are missing without looking."""
    first = commit(lake, lake.compaction(buckets=[0])).published
    lake.append({50: 1})
    theirs = lake.snapshot(3) | {"id": 4, "uuid": "theirs", "commitUser": "slow"}
    (lake.path / "snapshot/snapshot-4").write_text(json.dumps(theirs))
    with pytest.raises(CommitUnknownError, match=r"compare manifest-list-.* with snapshot 5"):
        check_published(LocalFileIO(), lake.table, first)


def test_an_expired_snapshot_of_ours_is_fine_and_a_removed_one_is_not(lake):
    """Older ones gone too: expired. Older ones still there: somebody rolled back."""
    first = commit(lake, lake.compaction()).published
    lake.append({50: 1})
    (lake.path / "snapshot/snapshot-4").unlink()
    with pytest.raises(CommitUnknownError, match="rolled the table back"):
        check_published(LocalFileIO(), lake.table, first)
    for number in (1, 2, 3):
        (lake.path / f"snapshot/snapshot-{number}").unlink()
    check_published(LocalFileIO(), lake.table, first)


def test_a_store_without_exclusive_creation_is_refused(lake):
    """By its name, before anything is read or written."""

    class Bucket(LocalFileIO):
        capabilities = Capabilities(atomic_rename=False, create_if_absent=False)

    with pytest.raises(RefusedError, match="Bucket cannot create a file only if it is absent"):
        commit(lake, lake.compaction(), Bucket())


def test_a_newer_snapshot_format_is_refused(lake):
    """What we do not understand we do not build on."""
    (lake.path / "snapshot/snapshot-3").write_text(json.dumps(lake.snapshot(3) | {"version": 4}))
    with pytest.raises(RefusedError, match="format 4"):
        commit(lake, lake.compaction())


def test_an_empty_table_cannot_be_compacted(tmp_path, lake):
    """No snapshot, no edits."""
    empty = PaimonLake(tmp_path / "empty").create()
    with pytest.raises(InvalidInputError, match="no snapshot"):
        commit(empty, lake.compaction())


def test_only_manifests_of_touched_partitions_are_read(tmp_path):
    """A commit reads manifests by what their list says of partitions; others are not opened (and not merged here)."""
    lake = PaimonLake(tmp_path / "t", buckets=1, partitioned=True).create()
    for partition in range(4):
        lake.append({1: 1, 2: 2}, partition=partition)
    edits = [edit for edit in lake.compaction() if edit.partition.endswith((2).to_bytes(8, "little"))]
    read = []

    class Watching(LocalFileIO):
        def read_bytes(self, path):
            read.append(path.rpartition("/")[2])
            return super().read_bytes(path)

    before = lake.rows()
    report = commit(lake, edits, Watching(), merge=MergeLimits(min_count=100))
    assert report.snapshot_id == 5
    assert len([name for name in read if name.startswith("manifest-") and "list" not in name]) == 1
    assert lake.rows() == before
    assert lake.problems() == []


def index(name, files, kind=DELETION_VECTORS, bucket=0):
    """One index file; of deletion vectors, with one for each data file."""
    return IndexEntry(
        kind=FileKind.ADD,
        partition=EMPTY_ROW,
        bucket=bucket,
        index_type=kind,
        file_name=name,
        file_size=1,
        row_count=len(files),
        ranges=tuple(DeletionVectorRange(data_file=file, offset=1, length=1) for file in files) or None,
    )


def set_index(lake, *entries):
    """Give the newest snapshot an index manifest."""
    write_index_manifest(LocalFileIO(), f"{lake.table}/manifest", entries, name="index-manifest-1", codec="deflate")
    latest = lake.latest()
    told = json.dumps(latest | {"indexManifest": "index-manifest-1"})
    (lake.path / f"snapshot/snapshot-{latest['id']}").write_text(told)


def test_rows_deleted_since_the_plan_stay_deleted(lake):
    """A deletion vector that an input got after the plan is a conflict of its bucket only."""
    edits = lake.compaction()
    set_index(lake, index("dv", [edits[0].before[0].file_name], bucket=edits[0].bucket))
    report = commit(lake, edits)
    assert [bucket for _, bucket in report.committed] == [edits[1].bucket]
    assert "deletion vectors of its inputs changed (dv)" in report.conflicting[0].why


@pytest.mark.parametrize("others", [(), ("h",)])
def test_consumed_deletion_vectors_go(lake, others):
    """An edit that applied the vectors of its inputs takes them out of the index manifest; other indexes stay."""
    (edit,) = lake.compaction(buckets=[0])
    set_index(lake, index("dv", [edit.before[0].file_name]), *(index(name, (), HASH) for name in others))
    report = commit(lake, [replace(edit, index_files=("dv",))])
    assert report.conflicting == ()
    name = lake.latest().get("indexManifest")
    assert (name is not None) is bool(others)
    if name is not None:
        found = read_index_manifest(LocalFileIO(), f"{lake.table}/manifest/{name}")
        assert tuple(entry.file_name for entry in found) == others


@pytest.mark.parametrize("harm", ["gone", "short"])
def test_a_missing_output_is_not_published(lake, harm):
    """Each output is looked for before a manifest names it."""
    edits = lake.compaction()
    path = lake.bucket_folder(0) / edits[0].after[0].file_name
    path.unlink() if harm == "gone" else path.write_bytes(b"short")
    report = commit(lake, edits)
    assert [bucket for _, bucket in report.committed] == [1]
    assert "is missing or" in report.conflicting[0].why
    assert lake.problems() == []


def test_names_are_recorded_before_they_exist(lake):
    """Whoever is killed leaves only files whose names are on record."""
    recorded = []

    def record(paths):
        assert not any((lake.path / path).exists() for path in paths)
        recorded.extend(paths)

    edits = lake.compaction()
    before = lake.names()
    commit(lake, edits, using=tools(record=record))
    made = {str(lake.path / name) for name in lake.names() - before if name.startswith("manifest/")}
    assert made
    assert made <= set(recorded)


def test_many_commits_keep_few_manifests(tmp_path):
    """With merging the base list does not grow with the number of commits."""
    lake = PaimonLake(tmp_path / "t", buckets=1).create()
    for number in range(12):
        lake.append({number: number})
        commit(lake, lake.compaction(), merge=MergeLimits(min_count=5))
    assert len(TableFiles(lake.path).manifests(lake.latest()["baseManifestList"])) <= 6
    assert len(lake.live()) == 1
    assert lake.problems() == []


def test_a_broken_partition_does_not_stop_the_others(tmp_path):
    """A DELETE without its ADD in another partition: its evidence is kept (no full merge), this one is committed."""
    lake = PaimonLake(tmp_path / "t", buckets=1, partitioned=True).create()
    for partition in (1, 2):
        lake.append({1: 1}, partition=partition)
    edits = [edit for edit in lake.compaction() if edit.partition.endswith((1).to_bytes(8, "little"))]
    lake.append({2: 2}, partition=2)
    path = lake.path / "manifest" / TableFiles(lake.path).manifests(lake.latest()["deltaManifestList"])[0]["_FILE_NAME"]
    with path.open("rb") as file:
        reader = fastavro.reader(file)
        schema, (line,) = reader.writer_schema, list(reader)
    path.unlink()
    write_avro(path, schema, [line | {"_KIND": 1}])
    report = commit(lake, edits, merge=MergeLimits(full_threshold_bytes=1))
    assert (report.snapshot_id, len(report.committed)) == (4, 1)
    names = [meta["_FILE_NAME"] for meta in TableFiles(lake.path).manifests(lake.latest()["baseManifestList"])]
    assert path.name in names


def test_published_prints_itself():
    """One line for logs and messages."""
    assert str(Published(snapshot_id=4, uuid="u")) == "snapshot 4 (u)"
