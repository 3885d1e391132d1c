"""A small segment table for tests: a load that shares no code with the product's, and a reader of its own.

``load`` writes Parquet with PyArrow, computes the index by itself and commits through the product's edits. Everything
that reads (``status``, ``files``, ``table``, ``duck``, ``problems``) parses the JSON on disk and nothing else, so it
proves what any other program would find.
"""

import base64
import json
import struct
from collections import Counter
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
from segment_calls import commit_delete

from packstone.model.codec import dump_record
from packstone.model.segment import SegmentId
from packstone.runs.clock import new_run_id, now_ms, system_clock
from packstone.runs.folder import RunInfo, record_created
from packstone.runs.liveness import ProcessIdentity
from packstone.storage.local import LocalFileIO
from packstone.tables.segments.format.columns import parse_columns, to_arrow, to_ddl
from packstone.tables.segments.format.commit import commit_edit, create_table
from packstone.tables.segments.format.edits import SegmentFacts, alter_properties, begin_load, finish_load
from packstone.tables.segments.format.properties import SortScope, parse_properties
from packstone.tables.segments.format.segment_file import DataFile, SegmentFile, write_segment_file
from packstone.tables.segments.format.status_files import read_latest
from packstone.tables.segments.leftovers import close_attempt, list_attempts, table_runs

DAY_MS = 86_400_000


def open_run(io, table, *, process=None, command="load", run=None):
    """The folder of a run as one leaves it that has just begun; of this process unless said."""
    folders, run = table_runs(io, table), run or new_run_id()
    info = RunInfo(
        run=run,
        command=command,
        table=table,
        process=process or ProcessIdentity.mine(),
        started_at="2024-01-01T00:00:00+00:00",
        family="segments",
    )
    io.make_dirs(folders.folder(run))
    io.replace(folders.heartbeat(run), b"")
    io.replace(f"{folders.folder(run)}/run.json", dump_record(info))
    return run


def record_files(io, table, run, *paths, label="1"):
    """Let a run write down paths, relative to the table, that it is about to create."""
    record_created(io, table_runs(io, table).folder(run), tuple(f"{table}/{path}" for path in paths), label=label)


class SegmentLake:
    """One table."""

    def __init__(self, path, *, io=None):
        self.path, self.table = Path(path), str(path)
        self.io = io or LocalFileIO()

    def create(self, schema="id long, v string", **properties):
        """Make the table."""
        raw = {name: str(value) for name, value in properties.items()}
        create_table(self.io, self.table, parse_columns(schema), properties=raw, clock=system_clock())
        return self

    def alter(self, **changes):
        """Change properties."""
        self._commit(lambda status: alter_properties(status, changes), "alter")

    def delete(self, *ids):
        """Mark segments for delete."""
        wanted = [SegmentId.parse(one) for one in ids]
        commit_delete(self.io, self.table, wanted, clock=system_clock())

    def begin(self, *, overwrite=False, now=None, process=None):
        """Announce a load; its attempt and its id."""
        now = now or now_ms()
        attempt = open_run(self.io, self.table, process=process)
        status = self._commit(lambda one: begin_load(one, attempt=attempt, overwrite=overwrite, now_ms=now), "load")
        return attempt, status.find_load(attempt).id

    def load(self, rows, *, runs=1, files=1, group_rows=1000, scope=None, overwrite=False, now=None, bad_rows=0):
        """Load rows: split into N runs, each sorted as the table is (or left as it is) and cut into files."""
        status = read_latest(self.io, self.table)
        properties = parse_properties(status.properties, status.columns)
        scope = SortScope(scope or properties.sort_scope)
        sort_columns = properties.sort_columns if scope != "NO_SORT" else ()
        data = rows if isinstance(rows, pa.Table) else pa.Table.from_pylist(rows, schema=to_arrow(status.columns))
        attempt, segment = self.begin(overwrite=overwrite, now=now)
        folder = self.path / "Fact" / f"Segment_{segment}"
        folder.mkdir(parents=True, exist_ok=True)
        listed, index = [], []
        for run in range(runs):
            part = data.take(pa.array(range(run, data.num_rows, runs), pa.int64()))
            part = sort_rows(part, sort_columns)
            step = -(-part.num_rows // files) or 1
            for at, first in enumerate(range(0, part.num_rows, step)):
                path = folder / f"part-{run:05d}-{at:05d}-{attempt}-0.parquet"
                piece = part.slice(first, step)
                pq.write_table(piece, path, row_group_size=group_rows)
                size = path.stat().st_size
                relative = str(path.relative_to(self.path))
                index += index_rows(piece, path, at=len(listed), sort_columns=sort_columns, group_rows=group_rows)
                listed.append(DataFile(path=relative, run=run, rows=piece.num_rows, size_bytes=size))
        name = f"{segment}_{attempt}.arrow"
        self._write_index(name, index, status.columns, sort_columns)
        content = SegmentFile(
            id=segment,
            attempt=attempt,
            files=tuple(listed),
            sort_columns=sort_columns,
            sort_scope=scope,
            schema=to_ddl(status.columns),
            index_file=name,
            rows=data.num_rows,
            data_bytes=sum(one.size_bytes for one in listed),
        )
        self._finish(content, attempt, now=now, bad_rows=bad_rows)
        return str(segment)

    def _finish(self, content, attempt, *, now, bad_rows):
        facts = SegmentFacts(
            segment_file=write_segment_file(self.io, self.table, content),
            rows=content.rows,
            files=len(content.files),
            data_bytes=content.data_bytes,
            index_bytes=(self.path / "Metadata/index" / content.index_file).stat().st_size,
            bad_rows=bad_rows,
        )
        self._commit(lambda one: finish_load(one, facts, attempt=attempt, now_ms=now or now_ms()), "load")
        close_attempt(self.io, self.table, attempt)
        table_runs(self.io, self.table).remove_empty()

    def _write_index(self, name, rows, columns, sort_columns):
        types = to_arrow(columns)
        fields = [("file", pa.int32()), ("row_group", pa.int32()), ("rows", pa.int64())]
        fields += [("size_bytes", pa.int64()), ("offset", pa.int64())]
        for column in sort_columns:
            fields += [(f"{end}.{column}", types.field(column).type) for end in ("start", "end")]
        schema = pa.schema(fields, metadata={b"format_version": b"1"})
        path = self.path / "Metadata/index" / name
        with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, schema) as writer:
            writer.write_table(pa.Table.from_pylist(rows, schema=schema))

    def _commit(self, edit, operation):
        return commit_edit(self.io, self.table, edit, clock=system_clock(), operation=operation)

    # What any other program finds.

    def versions(self):
        """The numbers of all status files."""
        return sorted(int(path.stem) for path in (self.path / "Metadata/status").glob("[0-9]*.json"))

    def status(self, version=None):
        """One version as it stands on disk, its entries as dicts."""
        number = self.versions()[-1] if version is None else version
        found = json.loads((self.path / f"Metadata/status/{number:020d}.json").read_bytes())
        for name, chunks, folder in (("entries", "chunks", "entries"), ("retired", "retired_chunks", "retired")):
            found[name] = to_rows(found[name])
            for chunk in found[chunks]:
                content = json.loads((self.path / "Metadata" / folder / chunk["name"]).read_bytes())
                runs = zip(chunk["gone"][::2], chunk["gone"][1::2], strict=True)
                gone = {at for begin, end in runs for at in range(begin, end)}
                found[name] += [row for at, row in enumerate(to_rows(content["entries"])) if at not in gone]
            found[name].sort(key=lambda one: (one["load"], one["merges"]))
        return found

    def retired(self):
        """The retired segments of the newest version, by id."""
        return {text_id(one): one for one in self.status()["retired"]}

    def chunks(self, version=None):
        """The chunks that a version names, relative to Metadata."""
        found = self.status(version)
        live = {f"entries/{one['name']}" for one in found["chunks"]}
        return live | {f"retired/{one['name']}" for one in found["retired_chunks"]}

    def live(self, version=None):
        """The visible entries by id."""
        entries = self.status(version)["entries"]
        return {text_id(one): one for one in entries if one["status"] in ("success", "partial-success")}

    def ids(self):
        """The ids that readers see, in order."""
        return list(self.live())

    def segment(self, segment):
        """The segment file of a live segment."""
        return json.loads((self.path / "Metadata/segments" / self.live()[segment]["segment_file"]).read_bytes())

    def files(self, segment=None, version=None):
        """The data files of one live segment, or of all, in their order."""
        wanted = [segment] if segment else list(self.live(version))
        names = [self.live(version)[one]["segment_file"] for one in wanted]
        lists = [json.loads((self.path / "Metadata/segments" / name).read_bytes())["files"] for name in names]
        return [str(self.path / one["path"]) for files in lists for one in files]

    def read(self, segment=None, version=None):
        """All rows in the order in which files and rows stand."""
        found = self.files(segment, version)
        return pa.concat_tables([pq.read_table(file) for file in found]) if found else None

    def count(self, version=None):
        """Rows with how often they occur, as DuckDB reads them, without the deleted ones."""
        return Counter(self._by_duckdb(version, lambda answer: answer.fetchall()) or ())

    def live_rows(self, version=None):
        """The rows as an Arrow table, as DuckDB reads them, without the deleted ones; None if there is no file."""
        return self._by_duckdb(version, lambda answer: answer.to_arrow_table())

    def _by_duckdb(self, version, fetch):
        found = self.files(version=version)
        if not found:
            return None
        gone = {path: at for one in self.live(version).values() for path, at in self.deleted(one).items()}
        with duckdb.connect() as connection:
            if not gone:
                return fetch(connection.sql("select * from read_parquet(?)", params=[found]))
            pairs = [(path, at) for path, some in gone.items() for at in some]
            columns = {"path": [path for path, _ in pairs], "position": pa.array([at for _, at in pairs], pa.int64())}
            connection.register("gone", pa.table(columns))
            query = """
                select * exclude (filename, file_row_number)
                from read_parquet(?, filename = true, file_row_number = true) as rows
                where not exists (from gone where path = filename and position = file_row_number)"""
            return fetch(connection.sql(query, params=[found]))

    def deleted(self, entry):
        """The positions of the deleted rows of an entry, by data file."""
        if entry["delete_file"] is None:
            return {}
        content = json.loads((self.path / "Metadata/deletes" / entry["delete_file"]).read_bytes())
        bitmaps = {one["path"]: base64.b64decode(one["bitmap"]) for one in content["files"]}
        return {str(self.path / path): read_bitmap(data) for path, data in bitmaps.items()}

    def runs(self):
        """The folder of all runs on the table."""
        return Path(table_runs(self.io, self.table).home)

    def open_runs(self):
        """The runs that are not over, or that left records of files."""
        return list(list_attempts(self.io, self.table))

    def data_on_disk(self):
        """Every file below Fact/."""
        return sorted(str(path.relative_to(self.path)) for path in (self.path / "Fact").rglob("*") if path.is_file())

    def problems(self):
        """What must never be: files in two segments, missing ones, wrong counts, rows out of order."""
        found, seen = [], Counter()
        status = self.status()
        for segment, entry in self.live().items():
            content = self.segment(segment)
            for file in content["files"]:
                seen[file["path"]] += 1
                path = self.path / file["path"]
                if not path.exists():
                    found.append(f"{file['path']} is gone")
                elif path.stat().st_size != file["size_bytes"] or pq.read_metadata(path).num_rows != file["rows"]:
                    found.append(f"{file['path']} is not what its segment says")
            deleted = [at for some in self.deleted(entry).values() for at in some]
            if entry["deleted_rows"] != len(deleted) or not (not deleted or len(deleted) < entry["rows"]):
                found.append(f"{segment} has other deleted rows than its entry")
            if entry["rows"] != sum(file["rows"] for file in content["files"]):
                found.append(f"{segment} has other rows than its entry")
            if not (self.path / "Metadata/index" / content["index_file"]).exists():
                found.append(f"{segment} has no index")
            found += [f"{segment} run {run} is not sorted" for run in self._unsorted_runs(content)]
        found += [f"{path} is in {count} segments" for path, count in seen.items() if count > 1]
        taken = Counter(str(one) for running in status["running"] for one in running["inputs"])
        return found + [f"{one} is merged twice" for one, count in taken.items() if count > 1]

    def _unsorted_runs(self, content):
        columns = content["sort_columns"]
        for run in {file["run"] for file in content["files"]} if columns else ():
            paths = [str(self.path / file["path"]) for file in content["files"] if file["run"] == run]
            rows = pa.concat_tables([pq.read_table(path) for path in paths])
            if not rows.select(columns).equals(sort_rows(rows, columns).select(columns)):
                yield run


def read_bitmap(data):
    """The positions in a Roaring bitmap, read by its public specification."""
    cookie, count = struct.unpack_from("<HH", data)
    flags, at = [], 8
    if cookie == 12347:  # with runs; the number of containers is in the cookie
        count, at = count + 1, 4 + (count + 8) // 8
        flags = [bool(data[4 + one // 8] >> one % 8 & 1) for one in range(count)]
    else:
        (count,) = struct.unpack_from("<I", data, 4)
    heads = [struct.unpack_from("<HH", data, at + 4 * one) for one in range(count)]
    at += 4 * count + (4 * count if not flags or count >= 4 else 0)
    found = []
    for number, (key, more) in enumerate(heads):
        if flags and flags[number]:
            (runs,) = struct.unpack_from("<H", data, at)
            pairs = struct.iter_unpack("<HH", data[at + 2 : at + 2 + 4 * runs])
            found += [(key << 16) + low for start, length in pairs for low in range(start, start + length + 1)]
            at += 2 + 4 * runs
        elif more + 1 > 4096:
            found += [(key << 16) + low for low in range(65536) if data[at + low // 8] >> low % 8 & 1]
            at += 8192
        else:
            found += [(key << 16) + low for (low,) in struct.iter_unpack("<H", data[at : at + 2 * (more + 1)])]
            at += 2 * (more + 1)
    return found


def to_rows(columns):
    """Entries stand column by column."""
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def text_id(entry):
    """An id as people write it."""
    return f"{entry['load']}.{entry['merges']}" if entry["merges"] else str(entry["load"])


def sort_rows(data, columns):
    """Sort as a segment is sorted: nulls first."""
    if not columns:
        return data
    values = list(zip(*(data.column(column).to_pylist() for column in columns), strict=True))
    keys = [tuple((0,) if one is None else (1, one) for one in row) for row in values]
    return data.take(pa.array(sorted(range(len(keys)), key=keys.__getitem__), pa.int64()))


def index_rows(piece, path, *, at, sort_columns, group_rows):
    """One dict for each row group of a file."""
    metadata = pq.read_metadata(path)
    found = []
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        rows = piece.slice(number * group_rows, group_rows)
        size = sum(group.column(one).total_compressed_size for one in range(group.num_columns))
        row = {"file": at, "row_group": number, "rows": rows.num_rows, "size_bytes": size, "offset": 4}
        for column in sort_columns:
            row[f"start.{column}"] = rows.column(column)[0].as_py()
            row[f"end.{column}"] = rows.column(column)[rows.num_rows - 1].as_py()
        found.append(row)
    return found
