"""What is not compacted is refused by its name, with the reason; nothing else is."""

from __future__ import annotations

import pytest

from packstone.errors import RefusedError
from packstone.tables.paimon.format.data_file import EMPTY_ROW, DataFileMeta, SimpleStats
from packstone.tables.paimon.format.data_type import DataField, DataType, TypeRoot
from packstone.tables.paimon.format.schema import TableSchema
from packstone.tables.paimon.merge_specs import InputFiles, engine_spec, refuse_schema
from packstone.tables.paimon.refusals import refuse_clean, refuse_files, refuse_pick, refuse_table, uncalled_callbacks


def column(number, name, root=TypeRoot.BIGINT, **more):
    """Make a column."""
    return DataField(id=number, name=name, type=DataType(root=root, **more))


def with_options(options, *, keys=("id",), partitions=(), fields=()):
    """Make a small schema with these options."""
    base = (column(0, "id", nullable=False), column(1, "dt", TypeRoot.VARCHAR, length=9), column(2, "v"))
    return TableSchema(
        id=0,
        fields=(*base, *fields),
        primary_keys=keys,
        partition_keys=partitions,
        options=tuple(options.items()),
    )


def file(name="data-1.parquet", **more):
    """Make a file that nobody objects to."""
    return DataFileMeta(
        file_name=name,
        file_size=1,
        row_count=1,
        min_key=EMPTY_ROW,
        max_key=EMPTY_ROW,
        key_stats=SimpleStats(),
        value_stats=SimpleStats(),
        min_sequence_number=0,
        max_sequence_number=0,
        schema_id=0,
        level=0,
        **more,
    )


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ({"row-tracking.enabled": "true"}, "row-tracking"),
        ({"data-evolution.enabled": "true"}, "data-evolution"),
        ({"pk-clustering-override": "true"}, "pk-clustering-override"),
        ({"clustering.incremental": "true"}, "clustering.incremental"),
        ({"chain-table.enabled": "true"}, "chain table"),
        ({"bucket": "-2"}, "postponed"),
        ({"data-file.external-paths": "s3://b"}, "external paths"),
        ({"pk-btree.index.columns": "v"}, "pk-btree.index.columns"),
        ({"file.format": "lance"}, "lance"),
        ({"file.format.per.level": "0:avro,5:vortex"}, "vortex"),
        ({"merge-engine": "some-engine"}, "some-engine"),
        ({"merge-engine": "partial-update", "fields.v.sequence-group": "dt"}, "sequence groups"),
        ({"merge-engine": "partial-update", "fields.v.aggregate-function": "sum"}, "aggregations"),
        ({"merge-engine": "aggregation", "fields.v.aggregate-function": "collect"}, "collect"),
        ({"merge-engine": "aggregation", "fields.default-aggregate-function": "hll_sketch"}, "hll_sketch"),
        ({"type": "object-table"}, "object-table"),
        ({"metadata.iceberg.storage": "table-location"}, "metadata.iceberg.storage"),
        ({"metadata.iceberg.storage": "hive-catalog"}, "Iceberg readers would stay on the old files"),
        ({"metadata.iceberg-compatible": "true"}, "metadata.iceberg-compatible"),
        ({"manifest.format": "orc"}, "manifest.format is orc"),
        ({"manifest.format": "Parquet"}, "manifest.format is parquet"),
        ({"file.compression": "bogus"}, "parquet files with file.compression bogus"),
        ({"file.compression.per.level": "0:zstd,5:lzo"}, "lzo"),
        ({"file.format": "avro", "file.compression": "lz4"}, "avro files with file.compression lz4"),
        ({"file.compression.zstd-level": "99"}, "file.compression.zstd-level is 99"),
        ({"manifest.compression": "bogus"}, "manifest.compression is bogus"),
        ({"metadata.stats-mode": "bogus"}, "'bogus' is not a statistics mode"),
        ({"metadata.stats-mode.per.level": "5:bogus"}, "'bogus' is not a statistics mode"),
        ({"fields.v.stats-mode": "bogus"}, "'bogus' is not a statistics mode"),
        ({"target-file-size": "0 mb"}, "target-file-size"),
        ({"lookup-compact": "bogus"}, "lookup-compact is bogus"),
    ],
)
def test_a_table_is_refused_by_name(options, word):
    """Each option that this version does not understand refuses the table, and the reason names it."""
    assert word in (refuse_table(with_options(options)) or "")


def test_ordinary_tables_are_not_refused():
    """The defaults, all merge engines that we carry out, and append tables pass."""
    assert refuse_table(with_options({})) is None
    for engine in ("deduplicate", "first-row", "partial-update", "aggregation"):
        assert refuse_table(with_options({"merge-engine": engine})) is None
    assert refuse_table(with_options({"merge-engine": "aggregation", "fields.v.aggregate-function": "sum"})) is None
    assert refuse_table(with_options({"bucket": "-1"}, keys=())) is None


def test_rows_that_move_between_partitions():
    """A key without the partition column in dynamic buckets is refused; with a fixed number of buckets it cannot be."""
    assert "key-dynamic" in (refuse_table(with_options({"bucket": "-1"}, keys=("id",), partitions=("dt",))) or "")
    assert refuse_table(with_options({"bucket": "-1"}, keys=("dt", "id"), partitions=("dt",))) is None


@pytest.mark.parametrize("root", [TypeRoot.VARIANT, TypeRoot.BLOB, TypeRoot.MULTISET])
def test_strange_types_are_refused_also_inside_others(root):
    """A type that we cannot write back refuses the table, wherever it stands."""
    inner = DataType(root=root, element=DataType(root=TypeRoot.INT))
    nested = DataField(id=9, name="odd", type=DataType(root=TypeRoot.ARRAY, element=inner))
    made = with_options({}, fields=(nested,))
    assert "odd" in (refuse_table(made) or "")


@pytest.mark.parametrize(
    ("options", "full", "top", "level0", "is_refused"),
    [
        ({"changelog-producer": "full-compaction"}, True, True, True, True),
        ({"changelog-producer": "full-compaction"}, False, False, True, False),
        ({"changelog-producer": "lookup"}, False, False, True, True),
        ({"changelog-producer": "lookup"}, False, True, False, False),
        ({"changelog-producer": "input"}, True, True, True, False),
        ({"merge-engine": "first-row"}, False, False, True, True),
        ({"merge-engine": "first-row"}, True, True, True, False),
        ({"deletion-vectors.enabled": "true"}, False, False, True, True),
        ({"deletion-vectors.enabled": "true"}, True, True, True, False),
        ({}, False, False, True, False),
    ],
)
def test_a_pick_is_refused_where_only_others_of_the_table_would_do(options, full, top, level0, is_refused):
    """Changelogs that we do not write, first-row and deletion vectors refuse exactly the picks they must."""
    why = refuse_pick(with_options(options), is_full=full, to_top=top, takes_level0=level0)
    assert (why is not None) is is_refused


@pytest.mark.parametrize(
    ("facts", "word"),
    [
        ({"external_path": "s3://b/f"}, "external"),
        ({"write_cols": ("v",)}, "columns"),
        ({"first_row_id": 7}, "row ids"),
    ],
)
def test_files_of_other_features_are_refused(facts, word):
    """A bucket with one file that we would not write back right is left alone."""
    assert word in (refuse_files([file(), file("data-2.parquet", **facts)]) or "")


def test_files_of_other_formats_are_refused():
    """The format is the extension, also behind a codec."""
    assert refuse_files([file("data-1.zstd.orc"), file("data-1.avro")]) is None
    assert "csv" in (refuse_files([file("data-1.csv")]) or "")


@pytest.mark.parametrize(
    ("before", "after", "is_fine"),
    [
        (DataType(root=TypeRoot.INT), DataType(root=TypeRoot.BIGINT), True),
        (DataType(root=TypeRoot.BIGINT), DataType(root=TypeRoot.INT), False),
        (DataType(root=TypeRoot.FLOAT), DataType(root=TypeRoot.DOUBLE), True),
        (DataType(root=TypeRoot.INT), DataType(root=TypeRoot.VARCHAR, length=9), False),
        (DataType(root=TypeRoot.CHAR, length=3), DataType(root=TypeRoot.VARCHAR, length=9), True),
        (
            DataType(root=TypeRoot.DECIMAL, precision=5, scale=2),
            DataType(root=TypeRoot.DECIMAL, precision=9, scale=2),
            True,
        ),
        (
            DataType(root=TypeRoot.DECIMAL, precision=9, scale=2),
            DataType(root=TypeRoot.DECIMAL, precision=9, scale=3),
            False,
        ),
        (DataType(root=TypeRoot.TIMESTAMP, precision=3), DataType(root=TypeRoot.TIMESTAMP, precision=6), True),
    ],
)
def test_only_widening_casts_are_carried_over(before, after, is_fine):
    """An evolved column is cast if nothing can be lost, else the bucket is refused by the column's name."""
    old = TableSchema(id=0, fields=(DataField(id=5, name="a", type=before),))
    new = TableSchema(id=1, fields=(DataField(id=5, name="b", type=after),))
    files = InputFiles(schema=new, schemas={0: old, 1: new})
    if is_fine:
        (source,) = files.describe(file(), "/t/data-1.parquet").columns
        assert (source.target, source.source) == ("b", "a")
    else:
        with pytest.raises(RefusedError, match="Column b changed"):
            files.describe(file(), "/t/data-1.parquet")


def nested(fields, *, inside=None):
    """A row of fields (id, name, type), maybe as the elements of something."""
    row = DataType(root=TypeRoot.ROW, fields=tuple(DataField(id=i, name=n, type=t) for i, n, t in fields))
    if inside is TypeRoot.ARRAY:
        return DataType(root=TypeRoot.ARRAY, element=row)
    return row if inside is None else DataType(root=inside, key=text(9), value=row)


def text(length, root=TypeRoot.VARCHAR, **more):
    """A text of a length."""
    return DataType(root=root, length=length, **more)


INT, LONG = DataType(root=TypeRoot.INT), DataType(root=TypeRoot.BIGINT)
BEFORE = [(20, "x", INT), (21, "y", text(9))]


@pytest.mark.parametrize("inside", [None, TypeRoot.ARRAY, TypeRoot.MAP])
@pytest.mark.parametrize(
    ("after", "is_fine"),
    [
        (BEFORE, True),
        ([(20, "x", DataType(root=TypeRoot.INT, nullable=False)), (21, "y", text(9))], True),
        ([(20, "x", INT), (22, "y", text(9))], False),  # dropped and added again
        ([(20, "x", INT)], False),
        ([*BEFORE, (22, "z", INT)], False),
        ([(20, "a", INT), (21, "y", text(9))], False),  # renamed
        ([(21, "y", text(9)), (20, "x", INT)], False),  # in another order
        ([(20, "x", LONG), (21, "y", text(9))], False),
        ([(20, "x", INT), (21, "y", text(5))], False),
    ],
)
def test_nested_types_must_be_the_same_at_every_depth(inside, after, is_fine):
    """Fields by id, name, order, type and length, inside rows, arrays and maps; only nullability may differ."""
    old = TableSchema(id=0, fields=(DataField(id=5, name="r", type=nested(BEFORE, inside=inside)),))
    new = TableSchema(id=1, fields=(DataField(id=5, name="r", type=nested(after, inside=inside)),))
    why = refuse_schema(new, old)
    assert (why is None) == is_fine, why
    assert is_fine or "Column r changed" in (why or "")


@pytest.mark.parametrize(
    ("before", "after", "lengths"),
    [
        (text(20), text(20), (0, None)),
        (text(20, nullable=False), text(20), (0, None)),
        (text(20), text(5), (0, 5)),
        (text(5), text(20), (0, 20)),  # a writer may have stored more than the type allowed
        (text(20), text(2**31 - 1), (0, None)),
        (text(4, TypeRoot.CHAR), text(8, TypeRoot.CHAR), (8, 8)),
        (text(10), text(4, TypeRoot.CHAR), (4, 4)),
        (text(10, TypeRoot.VARBINARY), text(2, TypeRoot.VARBINARY), (0, 2)),
        (text(10, TypeRoot.VARBINARY), text(2, TypeRoot.BINARY), (2, 2)),
    ],
)
def test_lengths_that_readers_cut_or_pad_to_are_checked(before, after, lengths):
    """Where the declared length changed, the kernel knows which values stay what they are; also of the key."""
    old = TableSchema(id=0, fields=(DataField(id=5, name="a", type=before),), primary_keys=("a",))
    new = TableSchema(id=1, fields=(DataField(id=5, name="a", type=after),), primary_keys=("a",))
    sources = InputFiles(schema=new, schemas={}).columns_of(old)
    assert {(one.min_length, one.max_length) for one in sources if one.target in {"a", "_KEY_a"}} == {lengths}


def test_nothing_is_removed_from_a_table_that_iceberg_reads():
    """Iceberg's metadata names files that an expiry would remove; callbacks only warn."""
    assert "Iceberg" in (refuse_clean(with_options({"metadata.iceberg.storage": "table-location"})) or "")
    assert refuse_clean(with_options({"metadata.iceberg.storage": "disabled"})) is None
    told = with_options({"commit.callbacks": "com.example.Tell"})
    assert refuse_table(told) is None
    assert "com.example.Tell" in (uncalled_callbacks(told) or "")


def test_columns_are_found_by_id_not_by_name():
    """A dropped column whose name was given again to a new one is null in old files."""
    old = TableSchema(id=0, fields=(column(0, "id"), column(1, "v")), primary_keys=("id",))
    new = TableSchema(id=1, fields=(column(0, "key"), column(2, "v")), primary_keys=("key",))
    described = InputFiles(schema=new, schemas={0: old, 1: new}).describe(file(), "/t/data-1.parquet")
    assert {c.target: c.source for c in described.columns} == {
        "_KEY_key": "_KEY_id",
        "_SEQUENCE_NUMBER": "_SEQUENCE_NUMBER",
        "_VALUE_KIND": "_VALUE_KIND",
        "key": "id",
        "v": None,
    }


def test_rows_ordered_by_snapshot_take_their_files_number():
    """With sequence.snapshot-ordering the rows of appended files have the number of their file."""
    made = with_options({"sequence.snapshot-ordering": "true"})
    files = InputFiles(schema=made, schemas={0: made})
    assert files.describe(file(), "/t/f.parquet").sequence_override == 0
    plain = with_options({})
    assert InputFiles(schema=plain, schemas={0: plain}).describe(file(), "/t/f.orc").sequence_override is None


def test_the_engine_is_read_from_the_options():
    """Functions by column, the default for the rest; keys keep their value, sequence columns take the last."""
    made = with_options(
        {
            "merge-engine": "aggregation",
            "fields.v.aggregate-function": "listagg",
            "fields.v.list-agg-delimiter": ";",
            "fields.default-aggregate-function": "max",
            "aggregation.remove-record-on-delete": "true",
            "sequence.field": "dt",
        }
    )
    spec = engine_spec(made)
    assert (spec.name, spec.remove_record_on_delete) == ("aggregation", True)
    assert [(one.column, one.function, one.delimiter) for one in spec.aggregates] == [
        ("id", "primary-key", ","),
        ("dt", "last_value", ","),
        ("v", "listagg", ";"),
    ]
