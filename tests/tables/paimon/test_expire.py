"""Snapshot expiry: which snapshots go, which files go with them, and what keeps them."""

import json
import shutil

import fastavro
import pytest
from hypothesis import given
from hypothesis import strategies as st
from paimon_interop.table_files import TableFiles
from paimon_lake import PaimonLake, options, tools, write_avro

from packstone.errors import ConflictError, InvalidInputError
from packstone.storage.local import LocalFileIO
from packstone.tables.paimon.commit import commit_edits
from packstone.tables.paimon.expire import RetentionOptions, expire, pick_expired, plan_expiry
from packstone.tables.paimon.format.data_file import EMPTY_ROW, FileKind
from packstone.tables.paimon.format.manifest_list import HASH, IndexEntry, write_index_manifest
from packstone.tables.paimon.format.table_options import TableOptions

IO = LocalFileIO()
HOUR = 3_600_000
NOW = 10**15
ALL_OLD = RetentionOptions(retained_min=1, time_retained_ms=0)


def pick(count, *, ages=None, consumer=None, first=1, **retention):
    """The expired ids of snapshots 1..count, each of age 100 hours unless said."""
    ids = list(range(first, first + count))
    ages = ages or {}
    found = pick_expired(
        ids,
        time_ms=lambda at: NOW - ages.get(at, 100) * HOUR,
        options=RetentionOptions(**retention),
        now_ms=NOW,
        next_to_consume=consumer,
    )
    assert found.first_retained == (found.expired[-1] + 1 if found.expired else first)
    return list(found.expired), found.why


def test_ten_snapshots_are_kept_by_default():
    """snapshot.num-retained.min is 10."""
    assert pick(12) == ([1, 2], "10 snapshots are always kept")
    assert pick(10)[0] == []


def test_a_snapshot_goes_only_if_its_successor_is_old():
    """Whoever began to read snapshot 3 before 4 came has the whole retention."""
    expired, why = pick(20, ages={4: 0.5})
    assert expired == [1, 2]
    assert why == "snapshot 4 is younger than 1 h 0 min"


def test_beyond_the_maximum_age_does_not_count():
    """snapshot.num-retained.max removes young ones too; the minimum still holds."""
    young = dict.fromkeys(range(1, 21), 0)
    assert pick(20, ages=young, retained_min=2, retained_max=5)[0] == list(range(1, 16))
    assert pick(20, ages=young, retained_min=5, retained_max=5)[0] == list(range(1, 16))


def test_at_most_the_limit_goes_at_once():
    """snapshot.expire.limit is 50."""
    assert pick(100)[0] == list(range(1, 51))
    assert pick(100, limit=3) == ([1, 2, 3], "at most 3 expire at once")


def test_consumers_protect_what_they_have_not_read():
    """A streaming reader's next snapshot and all after it stay."""
    assert pick(100, consumer=4) == ([1, 2, 3], "a consumer has not read snapshot 4 yet")
    assert pick(100, consumer=1)[0] == []


def test_the_newest_snapshot_always_stays():
    """Even if somebody says that none need be kept."""
    assert pick(5, retained_min=0)[0] == [1, 2, 3, 4]


def test_options_come_from_the_table():
    """The table's own words are understood."""
    given_ = (("snapshot.num-retained.min", "3"), ("snapshot.time-retained", "2 h"), ("snapshot.expire.limit", "7"))
    found = RetentionOptions.of(TableOptions.parse(given_, is_primary_key=True))
    assert found == RetentionOptions(retained_min=3, time_retained_ms=2 * HOUR, limit=7)


@given(st.data())
def test_expired_snapshots_are_the_oldest_ones(data):
    """Whatever the options: a prefix goes, the newest stays, and no rule is broken."""
    count = data.draw(st.integers(1, 30))
    low = data.draw(st.integers(0, 12))
    high = data.draw(st.integers(low, 40))
    limit = data.draw(st.integers(1, 20))
    consumer = data.draw(st.none() | st.integers(1, 40))
    age = data.draw(st.integers(0, 3))
    expired, _ = pick(
        count,
        ages={at: (count - at) * age for at in range(1, count + 1)},
        consumer=consumer,
        retained_min=low,
        retained_max=high,
        limit=limit,
    )
    assert expired == list(range(1, len(expired) + 1))
    assert len(expired) <= min(limit, count - max(low, 1)) or not expired
    assert consumer is None or consumer not in expired


# ---- files ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def lake(tmp_path):
    """Six snapshots: append, append, compact, append, append, compact; bucket 1 untouched after the third."""
    lake = PaimonLake(tmp_path / "t").create()
    for first in (0, 5):
        lake.append(dict.fromkeys(range(first, first + 10), first))
    compact(lake)
    lake.append({0: 40, 2: 40})
    lake.append({4: 50, 6: 50})
    compact(lake)
    return lake


def compact(lake):
    """Compact whatever has a level 0."""
    return commit_edits(IO, lake.table, lake.compaction(), options=options(), **tools())


def run(lake, retention=ALL_OLD, now_ms=NOW):
    """Plan and do it; return the plan."""
    plan = plan_expiry(IO, lake.table, retention, now_ms=now_ms)
    expire(IO, plan)
    return plan


def reachable(lake, *snapshots):
    """All files that these snapshots need, by code that is not ours."""
    files, found = TableFiles(lake.path), set()
    for snapshot in snapshots:
        for which in ("baseManifestList", "deltaManifestList"):
            found.add(f"manifest/{snapshot[which]}")
            found |= {f"manifest/{meta['_FILE_NAME']}" for meta in files.manifests(snapshot[which])}
        found |= {str(files.data_path(entry).relative_to(lake.path)) for entry in lake.live(snapshot=snapshot)}
    return found


def test_only_the_newest_remains(lake):
    """What is left is exactly what the newest snapshot needs, and its rows are all there."""
    before = lake.rows()
    plan = run(lake)
    assert plan.expired == (1, 2, 3, 4, 5)
    assert plan.first_retained == 6
    assert lake.ids() == [6]
    assert (lake.path / "snapshot/EARLIEST").read_text() == "6"
    assert lake.rows() == before
    assert lake.problems() == []
    hints = {"snapshot/EARLIEST", "snapshot/LATEST", "snapshot/snapshot-6", "schema/schema-0"}
    assert lake.names() - hints == reachable(lake, lake.latest())


def test_a_hint_that_lags_behind_is_repaired(lake):
    """Java believes LATEST if the next number does not exist: one that points to an expired snapshot leads nowhere."""
    (lake.path / "snapshot/LATEST").write_text("2")
    run(lake)
    assert (lake.path / "snapshot/LATEST").read_text() == "6"


def test_a_plan_changes_nothing(lake):
    """The dry run lists every file that the real one removes, and removes none."""
    before = lake.names()
    plan = plan_expiry(IO, lake.table, ALL_OLD, now_ms=NOW)
    assert lake.names() == before
    expire(IO, plan)
    gone = {str(lake.path / name) for name in before - lake.names()}
    assert gone == {
        *plan.data_files,
        *plan.metadata_files,
        *(f"{lake.table}/snapshot/snapshot-{n}" for n in range(1, 6)),
    }
    assert plan.data_bytes > 0
    assert str(plan).startswith("5 snapshots, ")


def test_every_retained_snapshot_stays_readable(lake):
    """Each number of retained snapshots: all of them read as before."""
    rows = {number: lake.rows(number) for number in lake.ids()}
    for keep in range(5, 0, -1):
        run(lake, RetentionOptions(retained_min=keep, time_retained_ms=0))
        assert lake.ids() == list(range(7 - keep, 7))
        assert {number: lake.rows(number) for number in lake.ids()} == {n: rows[n] for n in lake.ids()}
        assert lake.problems() == []


def test_upgraded_files_stay(tmp_path):
    """A file that only moved to another level has a DELETE and an ADD in one delta: it must not go."""
    from dataclasses import replace

    from packstone.tables.paimon.format.live_files import read_live_files
    from packstone.tables.paimon.format.snapshot import read_latest_snapshot

    lake = PaimonLake(tmp_path / "t", buckets=1).create()
    lake.append({1: 1})
    (edit,) = lake.compaction()
    (found,) = read_live_files(IO, lake.table, read_latest_snapshot(IO, lake.table))
    upgrade = replace(edit, before=found.files, after=(replace(found.files[0], level=5),))
    commit_edits(IO, lake.table, [upgrade], options=options(), **tools())
    lake.append({2: 2})
    run(lake)
    assert lake.rows() == {(None, 1): 1, (None, 2): 2}


def tag(lake, number, name="t", content=None):
    """Tag a snapshot, as Java does: its JSON and some more."""
    folder = lake.path / "tag"
    folder.mkdir(exist_ok=True)
    path = folder / f"tag-{name}"
    told = lake.snapshot(number) | {"tagCreateTime": [2026, 1, 1, 0, 0], "tagTimeRetained": "PT1H"}
    path.write_text(json.dumps(told) if content is None else content)
    return told


@pytest.mark.parametrize("number", [1, 2, 3, 4, 5])
def test_tagged_files_stay(lake, number):
    """A tag's snapshot reads as before though the snapshot is gone."""
    rows = lake.rows(number)
    tagged = tag(lake, number)
    run(lake)
    assert lake.ids() == [6]
    assert lake.rows(snapshot=tagged) == rows
    wanted = reachable(lake, lake.latest(), tagged)
    hints = {"snapshot/EARLIEST", "snapshot/LATEST", "snapshot/snapshot-6", "schema/schema-0", "tag/tag-t"}
    assert lake.names() - hints == wanted


def test_branches_keep_their_files(lake):
    """A branch's snapshots and tags stand on files of the main table."""
    rows = lake.rows(2)
    branch = lake.path / "branch/branch-b"
    (branch / "snapshot").mkdir(parents=True)
    (branch / "schema").mkdir()
    (branch / "schema/schema-0").write_text((lake.path / "schema/schema-0").read_text())
    kept = lake.snapshot(2)
    (branch / "snapshot/snapshot-2").write_text(json.dumps(kept))
    run(lake)
    assert lake.rows(snapshot=kept) == rows


def test_old_changelogs_keep_their_files(lake):
    """A changelog that outlived its snapshot names files by its lists."""
    rows = lake.rows(2)
    kept = lake.snapshot(2)
    (lake.path / "changelog").mkdir()
    (lake.path / "changelog/changelog-2").write_text(json.dumps(kept))
    run(lake)
    assert lake.rows(snapshot=kept) == rows


def test_consumers_are_asked(lake):
    """A consumer's file stops expiry at its next snapshot."""
    (lake.path / "consumer").mkdir()
    (lake.path / "consumer/consumer-c").write_text('{"nextSnapshot": 3}')
    plan = run(lake)
    assert lake.ids() == [3, 4, 5, 6]
    assert plan.why == "a consumer has not read snapshot 3 yet"


def test_files_that_came_back_stay(lake):
    """A rollback adds files again under their old names: a later ADD keeps them, whatever old deltas say."""
    old = lake.live(2)
    entries = [
        {
            "_VERSION": 2,
            "_KIND": 0,
            "_PARTITION": entry.partition,
            "_BUCKET": entry.bucket,
            "_TOTAL_BUCKETS": entry.total_buckets,
            "_FILE": entry.file,
        }
        for entry in old
    ]
    assert lake._try_append(entries, "rollback", 1) == 7
    for keep in (2, 1):
        run(lake, RetentionOptions(retained_min=keep, time_retained_ms=0))
        files = TableFiles(lake.path)
        assert all(files.data_path(entry).exists() for entry in old)


@pytest.mark.parametrize(
    ("harm", "told"),
    [
        (lambda lake: tag(lake, 2, content="{"), "tag-t is not a Paimon snapshot"),
        (lambda lake: tag(lake, 2, content=json.dumps(lake.snapshot(2) | {"baseManifestList": "gone"})), "gone"),
        (lambda lake: (lake.path / "tag/strange").mkdir(parents=True), "strange is not known to packstone"),
        (lambda lake: (lake.path / "branch/other").mkdir(parents=True), "other is not known to packstone"),
        (lambda lake: (lake.path / "branch/branch-x").mkdir(parents=True), "The branch x has no schema"),
        (lambda lake: (lake.path / "manifest" / lake.snapshot(6)["baseManifestList"]).write_bytes(b"x"), "manifest"),
        (lambda lake: (lake.path / "manifest" / lake.snapshot(6)["deltaManifestList"]).unlink(), "is missing"),
        (
            lambda lake: (
                (lake.path / "consumer").mkdir(),
                (lake.path / "consumer/consumer-c").write_text("what"),
            ),
            "not a Paimon consumer",
        ),
        (
            lambda lake: lake.create(**{"changelog.time-retained": "1 d"}),
            "keeps changelogs longer",
        ),
    ],
)
def test_nothing_goes_on_doubt(lake, harm, told):
    """Whatever cannot be read or is not known: no file is removed, and the reason is reported."""
    harm(lake)
    before = lake.names()
    plan = run(lake)
    assert plan.in_doubt
    assert plan.expired == ()
    assert told in plan.why
    assert plan.why.endswith("Nothing is removed.")
    assert lake.names() == before


def test_a_tag_made_after_the_plan_stops_it(lake):
    """Between plan and removal tags are asked again."""
    plan = plan_expiry(IO, lake.table, ALL_OLD, now_ms=NOW)
    tag(lake, 2)
    before = lake.names()
    with pytest.raises(ConflictError, match="changed since the plan; nothing was removed"):
        expire(IO, plan)
    assert lake.names() == before


def test_a_rollback_after_the_plan_stops_it(lake):
    """If the first retained snapshot is gone, the others may be all there is."""
    plan = plan_expiry(IO, lake.table, ALL_OLD, now_ms=NOW)
    (lake.path / "snapshot/snapshot-6").unlink()
    with pytest.raises(ConflictError, match="snapshot 6 is gone"):
        expire(IO, plan)


def test_extra_files_go_with_their_data_file(lake):
    """A file index beside a data file is removed with it."""
    for name in list((lake.path / "manifest").iterdir()):
        if not name.name.startswith("manifest-list"):
            rewrite(name, lambda line: line["_FILE"].update(_EXTRA_FILES=[f"{line['_FILE']['_FILE_NAME']}.index"]))
    for entry in {e.file["_FILE_NAME"]: e for number in lake.ids() for e in lake.live(number)}.values():
        (lake.bucket_folder(entry.bucket) / f"{entry.file['_FILE_NAME']}.index").write_text("index")
    run(lake)
    left = {name for name in lake.names() if name.endswith(".index")}
    assert left == {f"bucket-{e.bucket}/{e.file['_FILE_NAME']}.index" for e in lake.live()}


def rewrite(path, change):
    """Change every line of an Avro file."""
    with path.open("rb") as file:
        reader = fastavro.reader(file)
        schema, records = reader.writer_schema, list(reader)
    for record in records:
        change(record)
    path.unlink()
    write_avro(path, schema, records)


def test_changelogs_go_with_their_snapshots(lake):
    """A producer's changelog files belong to one snapshot: those of expired ones go, those of retained ones stay."""
    files = TableFiles(lake.path)
    made = {}
    for number in (4, 5):
        folder = lake.path / "manifest"
        (entry,) = files.entries(lake.snapshot(number)["deltaManifestList"])
        (meta,) = files.manifests(lake.snapshot(number)["deltaManifestList"])
        made[number] = f"bucket-{entry.bucket}/changelog-{number}.parquet"
        (lake.path / made[number]).write_text("changes")
        shutil.copy(folder / meta["_FILE_NAME"], folder / f"changes-{number}")
        shutil.copy(folder / lake.snapshot(number)["deltaManifestList"], folder / f"changelog-list-{number}")
        rewrite(
            folder / f"changes-{number}",
            lambda line, n=number: line["_FILE"].update(_FILE_NAME=f"changelog-{n}.parquet"),
        )
        rewrite(folder / f"changelog-list-{number}", lambda line, n=number: line.update(_FILE_NAME=f"changes-{n}"))
        told = lake.snapshot(number) | {"changelogManifestList": f"changelog-list-{number}"}
        (lake.path / f"snapshot/snapshot-{number}").write_text(json.dumps(told))
    run(lake, RetentionOptions(retained_min=2, time_retained_ms=0))
    assert lake.ids() == [5, 6]
    left = {name for name in lake.names() if "change" in name}
    assert left == {made[5], "manifest/changes-5", "manifest/changelog-list-5"}


def test_files_outside_the_table_are_left_and_reported(lake):
    """A data file with a path of its own stands where we remove nothing."""
    for path in list((lake.path / "manifest").iterdir()):
        if not path.name.startswith("manifest-list"):
            rewrite(path, lambda line: line["_FILE"].update(_EXTERNAL_PATH=f"/elsewhere/{line['_FILE']['_FILE_NAME']}"))
    plan = run(lake)
    assert plan.data_files == ()
    assert len(plan.left_alone) == 7
    assert all(path.startswith("/elsewhere/") for path in plan.left_alone)
    assert lake.ids() == [6]


def test_a_young_table_is_left_alone(lake):
    """With the defaults nothing of six fresh snapshots goes."""
    plan = run(lake, RetentionOptions())
    assert plan.expired == ()
    assert not plan.in_doubt
    assert plan.why == "10 snapshots are always kept"


def test_an_empty_table_has_nothing_to_expire(tmp_path):
    """No snapshot at all."""
    assert run(PaimonLake(tmp_path / "e").create()).why == "there is no snapshot"


def test_contradicting_options_are_refused(lake):
    """At least five and at most three."""
    with pytest.raises(InvalidInputError, match="Cannot keep at most"):
        plan_expiry(IO, lake.table, RetentionOptions(retained_min=5, retained_max=3), now_ms=NOW)


def test_statistics_and_indexes_go_with_the_last_snapshot_that_names_them(lake):
    """Of two index manifests and two statistics, those of the newest snapshot stay."""
    (lake.path / "statistics").mkdir()
    (lake.path / "index").mkdir()
    for number, shared in ((5, "index-shared"), (6, "index-shared")):
        entries = [index_entry(f"index-{number}"), index_entry(shared)]
        write_index_manifest(IO, f"{lake.table}/manifest", entries, name=f"index-manifest-{number}")
        told = {"indexManifest": f"index-manifest-{number}", "statistics": f"stat-{number}"}
        (lake.path / f"snapshot/snapshot-{number}").write_text(json.dumps(lake.snapshot(number) | told))
        for name in (f"statistics/stat-{number}", f"index/index-{number}", f"index/{shared}"):
            (lake.path / name).write_text("x")
    run(lake)
    found = {name for name in lake.names() if name.startswith(("statistics", "index", "manifest/index"))}
    assert found == {"statistics/stat-6", "index/index-6", "index/index-shared", "manifest/index-manifest-6"}


def index_entry(name):
    """One hash index."""
    return IndexEntry(
        kind=FileKind.ADD, partition=EMPTY_ROW, bucket=0, index_type=HASH, file_name=name, file_size=1, row_count=1
    )
