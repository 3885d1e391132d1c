"""Calls on Paimon tables that tests kill or race; ``fork_server.py`` runs them in processes of their own."""

import contextlib
import os
import time
import uuid
from pathlib import Path

from paimon_lake import PaimonLake, options, tools

from packstone.errors import ConflictError, CorruptionError
from packstone.model.codec import dump_record
from packstone.pipeline.table import Table
from packstone.runs.folder import RunInfo, record_created
from packstone.runs.liveness import ProcessIdentity
from packstone.tables.paimon.clean import find_leftovers, remove_leftovers
from packstone.tables.paimon.commit import check_published, commit_edits
from packstone.tables.paimon.draft import MergeLimits
from packstone.tables.paimon.expire import RetentionOptions, expire, plan_expiry
from packstone.tables.paimon.options import PaimonOptions

MERGES = {"minor": MergeLimits(min_count=2), "full": MergeLimits(target_bytes=1 << 20, full_threshold_bytes=1)}


def run_info(run, table, process):
    """What a run says of itself."""
    return RunInfo(run=run, command="compact", table=table, process=process, started_at="2026-01-01T00:00:00+00:00")


def runs_folder(path):
    """Where runs of a table keep their records."""
    return str(Path(path).parent / ".packstone" / Path(path).name / "runs")


def paimon_commit(io, path, merge="minor", now_seconds=None):
    """A run as the service makes it: it says who it is, records the names of its outputs, writes them, commits."""
    lake = PaimonLake(path)
    run = str(uuid.uuid4())
    folder = f"{runs_folder(path)}/{run}"
    io.make_dirs(folder)
    io.replace(f"{folder}/heartbeat", b"")
    io.replace(f"{folder}/run.json", dump_record(run_info(run, path, ProcessIdentity.mine())))

    def record(paths):
        record_created(io, folder, paths, label=str(uuid.uuid4()))

    token = uuid.uuid4()
    record(tuple(f"{path}/bucket-{bucket}/data-{token}-{bucket}.parquet" for bucket in range(lake.buckets)))
    edits = lake.compaction(name=f"data-{token}-{{bucket}}.parquet")
    report = commit_edits(io, path, edits, options=options(merge=MERGES[merge]), **tools(record=record))
    return {"snapshot": report.snapshot_id, "conflicts": [str(conflict) for conflict in report.conflicting]}


def paimon_expire(io, path, keep=1):
    """Expire all but the newest snapshots."""
    plan = plan_expiry(io, path, RetentionOptions(retained_min=keep, time_retained_ms=0), now_ms=10**15)
    expire(io, plan)
    return {"expired": list(plan.expired), "why": plan.why}


def paimon_leftovers(io, path, now_seconds):
    """Remove what dead runs left."""
    found = find_leftovers(io, path, runs_folder=runs_folder(path), now_seconds=now_seconds)
    remove_leftovers(io, found)
    return {"paths": list(found.paths), "kept": list(found.kept)}


def paimon_append_loop(io, path, first, count):
    """Append rows of its own this many times; say what was committed."""
    lake = PaimonLake(path)
    done = []
    while len(done) < count:
        key = first + len(done) * 4
        rows = {at: os.getpid() for at in range(key, key + 4)}
        done.append((lake.append(rows, user=f"writer-{os.getpid()}"), list(rows)))
    return done


def paimon_compact_loop(io, path, stop):
    """Compact until there is a file; say which snapshots were published. Each of ours is read again at the end."""
    lake = PaimonLake(path)
    published, lost = [], 0
    while not Path(stop).exists():
        with contextlib.suppress(FileNotFoundError, CorruptionError):  # expired while the test's own merge read it
            edits = lake.compaction()
            if not edits:
                time.sleep(0.01)
                continue
            try:
                report = commit_edits(io, path, edits, options=options(), **tools(), earlier=tuple(published[-1:]))
            except ConflictError:
                lost += 1
                continue
            lost += len(report.conflicting)
            published += [report.published] if report.published else []
    for one in published:
        check_published(io, path, one)
    return {"snapshots": [one.snapshot_id for one in published], "lost": lost}


def paimon_expire_loop(io, path, stop):
    """Expire all but the newest three, again and again, until there is a file."""
    expired = []
    while not Path(stop).exists():
        plan = plan_expiry(io, path, RetentionOptions(retained_min=3, time_retained_ms=0), now_ms=10**15)
        with contextlib.suppress(ConflictError):
            expire(io, plan)
            expired += plan.expired
        time.sleep(0.05)
    return expired


def paimon_compact(io, path, single_writer=False):
    """The whole compaction as the command runs it, with tasks in this process."""
    outcome = Table(path, io=io).compact(PaimonOptions(strategy="full", single_writer=single_writer))
    return {"status": outcome.status.value, "snapshots": list(outcome.versions)}


def paimon_restore(io, path, run):
    """Undo a run as the command does it."""
    return Table(path, io=io).restore(run).to_json()
