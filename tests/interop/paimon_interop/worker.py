"""pypaimon and pypaimon-rust behind JSON lines: a request on stdin, an answer on stdout.

Run with the Python of the interop environment: ``python -m paimon_interop.worker``. A request is
``{"do": NAME, ...}``, an answer ``{"ok": ...}`` or ``{"error": ..., "kind": ...}``. A table is named by its folder,
``WAREHOUSE/DATABASE.db/TABLE``.
"""

import contextlib
import json
import os
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
from pypaimon import CatalogFactory, Schema
from pypaimon.filesystem.local_file_io import LocalFileIO
from pypaimon.schema.data_types import DataField, DataTypeParser, PyarrowFieldParser
from pypaimon.schema.schema_change import SchemaChange
from pypaimon_rust.datafusion import PaimonCatalog

from paimon_interop.corruptions import corrupt
from paimon_interop.invariants import live_entries, problems_of
from paimon_interop.rows import arrow_table, rows_of
from paimon_interop.table_files import TableFiles

Request = dict[str, Any]


def create(request: Request) -> None:
    """Make a table: ``fields`` are pairs of a name and a type, or a type as Paimon's JSON has it."""
    catalog, name = catalog_of(request["table"])
    catalog.create_database(name.partition(".")[0], ignore_if_exists=True)
    fields = [
        DataField(at, field, DataTypeParser.parse_data_type(kind)) for at, (field, kind) in enumerate(request["fields"])
    ]
    schema = Schema(
        fields=fields,
        partition_keys=request.get("partition_keys", []),
        primary_keys=request.get("primary_keys", []),
        options=request.get("options", {}),
    )
    catalog.create_table(name, schema, ignore_if_exists=False)


def alter(request: Request) -> None:
    """Change a table's schema: ``changes`` are lists of a change's name and its arguments."""
    catalog, name = catalog_of(request["table"])
    changes = []
    for what, *arguments in request["changes"]:
        if what in {"add_column", "update_column_type"}:
            arguments[1] = DataTypeParser.parse_data_type(arguments[1])
        changes.append(getattr(SchemaChange, what)(*arguments))
    catalog.alter_table(name, changes)


def write(request: Request) -> None:
    """Append ``rows`` in one commit; with ``rust`` by pypaimon-rust."""
    if request.get("rust"):
        table = rust_table(request["table"])
        catalog, name = catalog_of(request["table"])
        schema = PyarrowFieldParser.from_paimon_schema(catalog.get_table(name).fields)
        builder = table.new_batch_write_builder()
        writer = builder.new_write()
        for batch in arrow_table(request["rows"], schema).to_batches():
            writer.write_arrow(batch)
        builder.new_commit().commit(writer.prepare_commit())
        writer.close()
        return
    catalog, name = catalog_of(request["table"])
    append(catalog.get_table(name), request["rows"])


def append(table: Any, rows: list[list[Any]]) -> None:
    """One commit of pypaimon."""
    builder = table.new_batch_write_builder()
    writer, commit = builder.new_write(), builder.new_commit()
    try:
        writer.write_arrow(arrow_table(rows, PyarrowFieldParser.from_paimon_schema(table.fields)))
        commit.commit(writer.prepare_commit())
    finally:
        writer.close()
        commit.close()


def read(request: Request) -> dict[str, Any]:
    """All rows as pypaimon merges them, at ``snapshot`` or ``tag`` if given, with ``rust`` by pypaimon-rust."""
    table = read_rust(request["table"]) if request.get("rust") else read_python(request)
    return {"columns": table.column_names, "rows": rows_of(table)}


def read_python(request: Request) -> pa.Table:
    """What pypaimon's own reader finds."""
    catalog, name = catalog_of(request["table"])
    table = catalog.get_table(name)
    options = {"scan.snapshot-id": str(request["snapshot"])} if "snapshot" in request else {}
    if "tag" in request:
        options["scan.tag-name"] = request["tag"]
    builder = (table.copy(options) if options else table).new_read_builder()
    return builder.new_read().to_arrow(builder.new_scan().plan().splits())


def read_rust(path: str) -> pa.Table:
    """What pypaimon-rust's reader finds."""
    catalog, name = catalog_of(path)
    schema = PyarrowFieldParser.from_paimon_schema(catalog.get_table(name).fields)
    builder = rust_table(path).new_read_builder()
    batches = builder.new_read().read(builder.new_scan().plan().splits())
    return pa.Table.from_batches(batches) if batches else schema.empty_table()


OPERATIONS = {
    "=": "equal",
    "<>": "not_equal",
    "<": "less_than",
    "<=": "less_or_equal",
    ">": "greater_than",
    ">=": "greater_or_equal",
    "null": "is_null",
    "not null": "is_not_null",
}


def ask(request: Request) -> list[list[Any]]:
    """The first column of the rows that each of the ``filters`` finds: a column, an operation and maybe a literal."""
    catalog, name = catalog_of(request["table"])
    table = catalog.get_table(name)
    types = {field.name: field.type for field in PyarrowFieldParser.from_paimon_schema(table.fields)}
    answers = []
    for column, operation, *literals in request["filters"]:
        builder = table.new_read_builder()
        values = [literal_of(literal, types[column]) for literal in literals]
        predicate = getattr(builder.new_predicate_builder(), OPERATIONS[operation])(column, *values)
        builder = builder.with_filter(predicate)
        found = builder.new_read().to_arrow(builder.new_scan().plan().splits())
        answers.append([] if found is None else found.column(0).to_pylist())
    return answers


def literal_of(text: str, kind: pa.DataType) -> Any:
    """A literal as Python has it."""
    if pa.types.is_floating(kind):
        return float(text)
    return bytes.fromhex(text) if pa.types.is_binary(kind) else text


def snapshots(request: Request) -> list[dict[str, Any]]:
    """The snapshot files as they are, oldest first."""
    folder = Path(request["table"]) / "snapshot"
    found = [json.loads(path.read_text(encoding="utf-8")) for path in folder.glob("snapshot-*")]
    return sorted(found, key=lambda snapshot: snapshot["id"])


def create_tag(request: Request) -> None:
    """Tag the latest snapshot."""
    catalog, name = catalog_of(request["table"])
    catalog.create_tag(name, request["tag"])


def check(request: Request) -> list[str]:
    """What is wrong with a table's files."""
    return problems_of(request["table"])


def live(request: Request) -> list[dict[str, Any]]:
    """The live files of the latest snapshot: where they are and what their entries say."""
    return [
        {
            "partition": table_files.partition(entry),
            "bucket": entry.bucket,
            "level": entry.file["_LEVEL"],
            "name": entry.file["_FILE_NAME"],
            "rows": entry.file["_ROW_COUNT"],
            "deletes": entry.file["_DELETE_ROW_COUNT"],
            "schema": entry.file["_SCHEMA_ID"],
        }
        for table_files in [TableFiles(Path(request["table"]))]
        for entry in live_entries(table_files)
    ]


def break_table(request: Request) -> None:
    """Break a table on purpose."""
    corrupt(Path(request["table"]), request["how"])


def append_loop(request: Request) -> dict[str, int]:
    """Append single-row commits of the keys ``first``, ``first + step``, ... for ``seconds``, with a ``pause``.

    Says how many commits pypaimon reported as done and how many it gave up; a key is counted up in both cases.
    """
    if request.get("exclusive"):
        publish_exclusively()
    catalog, name = catalog_of(request["table"])
    end = time.monotonic() + request["seconds"]
    key, done, failed = request["first"], [], 0
    while time.monotonic() < end:
        try:
            append(catalog.get_table(name), [[key, f"row {key}", key % 7]])
            done.append(key)
        except Exception:  # noqa: BLE001 - a lost race is reported in many ways; the rows decide
            failed += 1
            traceback.print_exc()
        key += request["step"]
        time.sleep(request["pause"])
    return {"done": done, "failed": failed}


def publish_exclusively() -> None:
    """Let pypaimon publish a snapshot by a link, which fails if the name is taken; its rename would replace it."""

    def try_to_write_atomic(self: LocalFileIO, path: str, content: str) -> bool:
        target = Path(self.to_filesystem_path(path))
        target.parent.mkdir(parents=True, exist_ok=True)
        draft = target.with_name(f".{target.name}.{os.getpid()}.{time.monotonic_ns()}")
        draft.write_text(content, encoding="utf-8")
        try:
            if target.name.startswith("snapshot-"):
                target.hardlink_to(draft)
                return True
            draft.replace(target)
        except FileExistsError:
            return False
        else:
            return True
        finally:
            draft.unlink(missing_ok=True)

    LocalFileIO.try_to_write_atomic = try_to_write_atomic


def catalog_of(path: str) -> tuple[Any, str]:
    """The catalog that a table's folder is in, and its name there."""
    folder = Path(path)
    return CatalogFactory.create({"warehouse": str(folder.parent.parent)}), f"{folder.parent.stem}.{folder.name}"


def rust_table(path: str) -> Any:
    """The same in pypaimon-rust."""
    folder = Path(path)
    catalog = PaimonCatalog({"warehouse": str(folder.parent.parent)})
    return catalog.get_table(f"{folder.parent.stem}.{folder.name}")


COMMANDS: dict[str, Callable[[Request], Any]] = {
    "create": create,
    "alter": alter,
    "write": write,
    "read": read,
    "ask": ask,
    "snapshots": snapshots,
    "create_tag": create_tag,
    "check": check,
    "live": live,
    "corrupt": break_table,
    "append_loop": append_loop,
}


def main() -> None:
    """Answer requests until stdin ends; whatever a library prints goes to stderr."""
    answers = sys.stdout
    with contextlib.redirect_stdout(sys.stderr):
        for line in sys.stdin:
            request = json.loads(line)
            try:
                answer = {"ok": COMMANDS[request["do"]](request)}
            except BaseException as error:  # noqa: BLE001 - the caller decides; Rust panics are no Exception
                answer = {"error": str(error), "kind": type(error).__name__, "trace": traceback.format_exc()}
            answers.write(json.dumps(answer) + "\n")
            answers.flush()


if __name__ == "__main__":
    main()
