"""A merge done one record after the other in plain Python, after the rules of Java's merge functions, and its files."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass, field, replace
from decimal import ROUND_HALF_UP, Decimal
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from packstone.rewrite.merge_tree.spec import (
    ColumnFacts,
    ColumnSource,
    DataFormat,
    EngineSpec,
    InputFile,
    MergeSpec,
    OutputSpec,
    WrittenFile,
    pack_schema,
)
from packstone.storage.memory import MemoryFileIO

INSERT, UPDATE_BEFORE, UPDATE_AFTER, DELETE = range(4)


@dataclass(frozen=True)
class Record:
    """One row: its key, sequence number, kind and values (the key's among them)."""

    key: tuple
    sequence: int
    kind: int
    values: dict[str, Any]

    @property
    def is_retract(self) -> bool:
        """Whether it takes back."""
        return self.kind % 2 == 1


@dataclass
class Case:
    """Runs of records, and how they are merged."""

    runs: list[list[Record]]
    value_types: dict[str, pa.DataType]
    keys: tuple[str, ...] = ("k",)
    engine: EngineSpec = field(default_factory=EngineSpec)
    drop_deletes: bool = False
    sequence_columns: tuple[str, ...] = ()
    sequence_descending: bool = False
    options: dict[str, Any] = field(default_factory=dict)
    io: MemoryFileIO = field(default_factory=MemoryFileIO)

    @functools.cached_property
    def inputs(self) -> tuple[tuple[InputFile, ...], ...]:
        """One file for each run."""
        return tuple((self._input(number, run),) for number, run in enumerate(self.runs) if run)

    @property
    def schema(self) -> pa.Schema:
        """Key, system and value columns."""
        keys = [pa.field(f"_KEY_{name}", self.value_types[name]) for name in self.keys]
        system = [pa.field("_SEQUENCE_NUMBER", pa.int64()), pa.field("_VALUE_KIND", pa.int8())]
        return pa.schema([*keys, *system, *(pa.field(name, kind) for name, kind in self.value_types.items())])

    @property
    def spec(self) -> MergeSpec:
        """The merge as the kernels get it."""
        return MergeSpec(
            **{
                "sections": (self.inputs,),
                "arrow_schema": pack_schema(self.schema),
                "key_columns": tuple(f"_KEY_{name}" for name in self.keys),
                "sequence_columns": self.sequence_columns,
                "sequence_descending": self.sequence_descending,
                "engine": self.engine,
                "drop_deletes": self.drop_deletes,
                "output": OutputSpec(directory="/t"),
                **self.options,
            }
        )

    def expected(self) -> list[Record]:
        """The merged view, in the order of keys."""
        by_key: dict[tuple, list[tuple[int, Record]]] = {}
        for number, record in enumerate(record for run in self.runs for record in run):
            by_key.setdefault(record.key, []).append((number, record))
        merged = []
        for numbered in by_key.values():
            numbered.sort(key=functools.cmp_to_key(self._compare_versions))
            records = [record for _, record in numbered]
            result = (
                records[0]
                if len(records) == 1
                else merge(records, self.engine, self.sequence_columns, self.keys, self.value_types)
            )
            if result is not None and not (self.drop_deletes and result.is_retract):
                merged.append(result)
        return sorted(merged, key=lambda record: [(value is not None, value) for value in record.key])

    def write(self, records: list[Record], name: str, **changed: Any) -> WrittenFile:
        """Write a file of records, and describe it."""
        path, size_bytes = self._store(records, name)
        facts = describe(path, size_bytes, records, self.schema)
        return replace(facts, **changed)

    def _input(self, number: int, run: list[Record]) -> InputFile:
        path, size_bytes = self._store(run, f"run-{number}")
        columns = tuple(ColumnSource(target=name, source=name) for name in self.schema.names)
        return InputFile(
            path=path, file_format=DataFormat.PARQUET, size_bytes=size_bytes, rows=len(run), columns=columns
        )

    def _store(self, records: list[Record], name: str) -> tuple[str, int]:
        path = f"/t/{name}.parquet"
        if self.io.stat("/t") is None:
            self.io.make_dirs("/t")
        self.io.remove(path)
        with self.io.open_output(path) as sink:
            # Small groups, so that files have several; not thousands.
            pq.write_table(to_table(records, self.schema), sink, row_group_size=max(7, len(records) // 6))
        return path, self.io.stat(path).size_bytes

    def _compare_versions(self, left: tuple[int, Record], right: tuple[int, Record]) -> int:
        """Oldest first: user's sequence (nulls first), sequence number, retract before add, the order of arrival."""
        for name in self.sequence_columns:
            a, b = left[1].values[name], right[1].values[name]
            if a != b:
                if a is None or b is None:
                    return -1 if a is None else 1
                return (-1 if a < b else 1) * (-1 if self.sequence_descending else 1)
        rest = [(record.sequence, not record.is_retract, number) for number, record in (left, right)]
        return -1 if rest[0] < rest[1] else 1


def to_table(records: list[Record], schema: pa.Schema) -> pa.Table:
    """Lay records out as columns."""
    columns: dict[str, list] = {name: [] for name in schema.names}
    keys = [name for name in schema.names if name.startswith("_KEY_")]
    for record in records:
        for name, value in zip(keys, record.key, strict=True):
            columns[name].append(value)
        columns["_SEQUENCE_NUMBER"].append(record.sequence)
        columns["_VALUE_KIND"].append(record.kind)
        for name, value in record.values.items():
            columns[name].append(value)
    return pa.table({f.name: pa.array(columns[f.name], f.type) for f in schema}, schema=schema)


def describe(path: str, size_bytes: int, records: list[Record], schema: pa.Schema) -> WrittenFile:
    """Say of a file what its metadata will say, value by value."""
    table = to_table(records, schema)
    return WrittenFile(
        path=path,
        size_bytes=size_bytes,
        rows=len(records),
        first_key=records[0].key,
        last_key=records[-1].key,
        min_sequence=min(record.sequence for record in records),
        max_sequence=max(record.sequence for record in records),
        delete_rows=sum(record.is_retract for record in records),
        columns=tuple(_facts(name, table.column(name)) for name in schema.names),
    )


def _is_disputed(value: Any) -> bool:
    """Whether readers disagree about its order, so that a file with it states no bounds."""
    if isinstance(value, bytes):
        return not value.isascii()
    return isinstance(value, float) and math.isnan(value)


def _facts(name: str, column: pa.ChunkedArray) -> ColumnFacts:
    if pa.types.is_nested(column.type):
        return ColumnFacts(name=name, minimum=None, maximum=None, null_count=column.null_count)
    if pa.types.is_temporal(column.type):
        column = column.cast(pa.int32() if column.type.bit_width == 32 else pa.int64())
    values = [v for v in column.to_pylist() if v is not None]
    if any(_is_disputed(v) for v in values):
        values = []
    low, high = min(values, default=None), max(values, default=None)
    return ColumnFacts(
        name=name,
        minimum=-0.0 if low == 0 and isinstance(low, float) else low,
        maximum=0.0 if high == 0 and isinstance(high, float) else high,
        null_count=column.null_count,
    )


def merge(records, engine, sequence_columns, keys, types) -> Record | None:
    """Merge the records of one key, oldest first, two or more."""
    match engine.name:
        case "deduplicate":
            kept = [r for r in records if not (engine.ignore_delete and r.is_retract)]
            return kept[-1] if kept else None
        case "first-row":
            kept = [r for r in records if not r.is_retract]
            return kept[0] if kept else None
        case "partial-update":
            return merge_partial(records, engine)
        case "aggregation":
            return merge_aggregates(records, engine, sequence_columns, keys, types)
    raise AssertionError(engine.name)


def merge_partial(records: list[Record], engine: EngineSpec) -> Record:
    """Java's PartialUpdateMergeFunction without sequence groups."""
    row: dict[str, Any] = dict.fromkeys(records[0].values)
    filled = met_add = deleted = False
    sequence = 0
    for record in records:
        deleted = False
        if record.is_retract:
            if not filled:
                row = dict(record.values)
                filled = True
            if engine.ignore_delete:
                continue
            sequence = record.sequence
            assert engine.remove_record_on_delete
            if record.kind == DELETE:
                deleted = True
                row = dict(record.values)
            continue
        sequence = record.sequence
        row |= {name: value for name, value in record.values.items() if value is not None}
        met_add = filled = True
    return Record(records[0].key, sequence, DELETE if deleted or not met_add else INSERT, row)


class Aggregator:
    """One column's accumulator."""

    def __init__(self, rule, kind):
        self.rule, self.kind, self.began = rule, kind, False

    def add(self, acc, new):  # noqa: C901, PLR0911, PLR0912 - a table of rules
        """Take in one value."""
        match self.rule.function:
            case "last_value" | "primary-key":
                return new
            case "last_non_null_value":
                return acc if new is None else new
            case "first_value":
                result, self.began = (acc if self.began else new), True
                return result
            case "first_non_null_value":
                if self.began or new is None:
                    return acc
                self.began = True
                return new
            case "listagg":
                return self._listagg(acc, new)
        if acc is None or new is None:
            return new if acc is None else acc
        match self.rule.function:
            case "sum":
                return self._number(acc + new)
            case "product":
                return self._number(acc * new)
            case "max":
                return new if java_order(acc) < java_order(new) else acc
            case "min":
                return new if java_order(new) < java_order(acc) else acc
            case "bool_and":
                return acc and new
            case "bool_or":
                return acc or new
        raise AssertionError(self.rule.function)

    def retract(self, acc, new):
        """Take out one value."""
        if self.rule.ignore_retract:
            return acc
        match self.rule.function:
            case "primary-key":
                return new
            case "last_value":
                return None
            case "last_non_null_value":
                return acc if new is None else None
            case "sum":
                if acc is None or new is None:
                    return (None if new is None else -new) if acc is None else acc
                return self._number(acc - new)
            case "product":
                if acc is None or new is None:
                    return acc
                return self._divide(acc, new)
        raise AssertionError(self.rule.function)

    def _number(self, value):
        if pa.types.is_decimal(self.kind):
            return value.quantize(Decimal(1).scaleb(-self.kind.scale), rounding=ROUND_HALF_UP)
        return pa.scalar(value, self.kind).as_py()

    def _divide(self, acc, new):
        if isinstance(acc, int):
            return int(Decimal(acc) / Decimal(new))
        return self._number(acc / new)

    def _listagg(self, acc, new):
        if new is None or not new.strip():
            return acc
        if acc is None or not acc.strip():
            return new
        if not self.rule.distinct:
            return f"{acc}{self.rule.delimiter}{new}"
        tokens = acc.split(self.rule.delimiter)
        for token in new.split(self.rule.delimiter):
            if token.strip() and token not in tokens:
                tokens.append(token)
                acc = f"{acc}{self.rule.delimiter}{token}"
        return acc


def merge_aggregates(records, engine, sequence_columns, keys, types) -> Record:
    """Java's AggregateMergeFunction."""
    from packstone.rewrite.merge_tree.spec import ColumnAggregate

    rules = {name: ColumnAggregate(column=name, function="last_non_null_value") for name in records[0].values}
    rules |= {name: ColumnAggregate(column=name, function="primary-key") for name in keys}
    rules |= {name: ColumnAggregate(column=name, function="last_value") for name in sequence_columns}
    rules |= {rule.column: rule for rule in engine.aggregates}
    aggregators = {name: Aggregator(rule, types[name]) for name, rule in rules.items()}
    row: dict[str, Any] = dict.fromkeys(records[0].values)
    deleted = False
    for record in records:
        deleted = engine.remove_record_on_delete and record.kind == DELETE
        if deleted:
            row = dict(record.values)
            continue
        for name, aggregator in aggregators.items():
            step = aggregator.retract if record.is_retract else aggregator.add
            row[name] = step(row[name], record.values[name])
    return Record(records[0].key, records[-1].sequence, DELETE if deleted else INSERT, row)


def java_order(value):
    """-0.0 below 0.0, NaN above all."""
    if isinstance(value, float):
        return (math.isnan(value), 0.0 if math.isnan(value) else value, math.copysign(1, value))
    return value
