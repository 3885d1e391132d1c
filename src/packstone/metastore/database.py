"""Reading a metastore's database: one table by name, all tables, and partitions page by page.

Pages are cut by the primary key (``PART_ID > last``), so that a table with a million partitions costs as much memory as
one with a thousand, and a page costs the same wherever it is.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any, Final, Self

from sqlalchemy import Connection, Engine, RowMapping, Select, Table, or_, select

from packstone.errors import InvalidInputError
from packstone.metastore.connect import metastore_key, one_sentence, open_metastore_engine
from packstone.metastore.hive_schema import (
    BUCKETING_COLS,
    DBS,
    PARTITION_KEYS,
    PARTITION_PARAMS,
    PARTITIONS,
    SDS,
    SERDE_PARAMS,
    SERDES,
    SKEWED_COL_NAMES,
    SORT_COLS,
    TABLE_PARAMS,
    TBLS,
)
from packstone.metastore.location_spellings import ancestors_of, spellings_of
from packstone.model.metastore import PartitionFacts, StorageFacts, TableFacts

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from types import TracebackType

PAGE: Final = 2_000
_STORAGE = (SDS.c.sd_id, SDS.c.serde_id, SDS.c.location, SDS.c.input_format, SDS.c.num_buckets, SERDES.c.slib)


class MetastoreDatabase:
    """An open metastore; it only reads."""

    __slots__ = ("_engine",)

    def __init__(self, address: str) -> None:
        self._engine: Engine = open_metastore_engine(address)

    @property
    def key(self) -> str:
        """Which metastore this is, without user and password."""
        return metastore_key(self._engine)

    def find_table(self, database: str, name: str) -> TableFacts:
        """One table; InvalidInputError if there is none. Hive's names are in lower case, whatever is typed."""
        query = _tables().where(DBS.c.name == database.lower(), TBLS.c.tbl_name == name.lower())
        with one_sentence(self._engine), self._engine.connect() as connection:
            found = _table_facts(connection, connection.execute(query).mappings().all())
        if not found:
            raise InvalidInputError(f"The metastore {self.key} has no table {database}.{name}.")
        return found[0]

    def list_tables(self) -> Iterator[TableFacts]:
        """All tables and views, in the order in which they were made."""
        last = -1
        while True:
            query = _tables().where(TBLS.c.tbl_id > last).order_by(TBLS.c.tbl_id).limit(PAGE)
            with one_sentence(self._engine), self._engine.connect() as connection:
                page = _table_facts(connection, connection.execute(query).mappings().all())
            yield from page
            if len(page) < PAGE:
                return
            last = page[-1].number

    def list_partitions(self, table: TableFacts) -> Iterator[PartitionFacts]:
        """The partitions of one table, in the order in which they were made."""
        last = -1
        while True:
            query = _partitions().where(PARTITIONS.c.tbl_id == table.number, PARTITIONS.c.part_id > last)
            query = query.order_by(PARTITIONS.c.part_id).limit(PAGE)
            with one_sentence(self._engine), self._engine.connect() as connection:
                page = _partition_facts(connection, connection.execute(query).mappings().all())
            yield from page
            if len(page) < PAGE:
                return
            last = page[-1].number

    def list_all_partitions(self) -> Iterator[tuple[TableFacts, PartitionFacts]]:
        """The partitions of all tables with their tables, in the order in which they were made."""
        last = -1
        while True:
            query = _partitions().where(PARTITIONS.c.part_id > last).order_by(PARTITIONS.c.part_id).limit(PAGE)
            with one_sentence(self._engine), self._engine.connect() as connection:
                rows = connection.execute(query).mappings().all()
                owners = _known([row[PARTITIONS.c.tbl_id] for row in rows])
                found = connection.execute(_tables().where(TBLS.c.tbl_id.in_(owners))).mappings().all()
                tables = {table.number: table for table in _table_facts(connection, found)}
                page = _partition_facts(connection, rows)
            yield from ((tables[row[PARTITIONS.c.tbl_id]], one) for row, one in zip(rows, page, strict=True))
            if len(page) < PAGE:
                return
            last = page[-1].number

    def find_partition(self, table: TableFacts, name: str) -> PartitionFacts | None:
        """One partition by its name, as Hive spells it."""
        query = _partitions().where(PARTITIONS.c.tbl_id == table.number, PARTITIONS.c.part_name == name)
        with one_sentence(self._engine), self._engine.connect() as connection:
            found = _partition_facts(connection, connection.execute(query).mappings().all())
        return found[0] if found else None

    def read_location(self, table: str, partition: str) -> str | None:
        """Where a partition is now, or, without one, a table; None if there is no such thing."""
        database, _, name = table.partition(".")
        query = _tables().where(DBS.c.name == database.lower(), TBLS.c.tbl_name == name.lower())
        with one_sentence(self._engine), self._engine.connect() as connection:
            found = connection.execute(query).mappings().first()
            if found is None or not partition:
                return None if found is None else found[SDS.c.location] or ""
            inside = (PARTITIONS.c.tbl_id == found[TBLS.c.tbl_id], PARTITIONS.c.part_name == partition)
            located = connection.execute(_partitions().where(*inside)).mappings().first()
        return None if located is None else located[SDS.c.location] or ""

    def who_shares(self, table: TableFacts, location: str) -> str | None:
        """Name another table that has a folder at, above or below a location; None if nobody has."""
        spelled = spellings_of(location)
        above = [one for ancestor in ancestors_of(location) for one in spellings_of(ancestor)]
        inside = or_(*(SDS.c.location.startswith(f"{one}/", autoescape=True) for one in spelled))
        touches = or_(SDS.c.location.in_([*spelled, *above]), inside)
        by_table = _owners(TBLS.c.sd_id == SDS.c.sd_id).where(touches, TBLS.c.tbl_id != table.number).limit(1)
        by_partition = (
            select(DBS.c.name, TBLS.c.tbl_name)
            .select_from(SDS)
            .join(PARTITIONS, PARTITIONS.c.sd_id == SDS.c.sd_id)
            .join(TBLS, TBLS.c.tbl_id == PARTITIONS.c.tbl_id)
            .join(DBS, DBS.c.db_id == TBLS.c.db_id)
            .where(touches, TBLS.c.tbl_id != table.number)
            .limit(1)
        )
        with one_sentence(self._engine), self._engine.connect() as connection:
            row = connection.execute(by_table).first() or connection.execute(by_partition).first()
        return f"{row[0]}.{row[1]}" if row is not None else None

    def close(self) -> None:
        """Close all connections."""
        self._engine.dispose()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _owners(on: Any) -> Select[tuple[Any, ...]]:  # noqa: ANN401 - a condition of SQLAlchemy
    return select(DBS.c.name, TBLS.c.tbl_name).select_from(SDS).join(TBLS, on).join(DBS, DBS.c.db_id == TBLS.c.db_id)


def _tables() -> Select[tuple[Any, ...]]:
    return (
        select(TBLS.c.tbl_id, DBS.c.name, TBLS.c.tbl_name, TBLS.c.tbl_type, *_STORAGE)
        .select_from(TBLS)
        .join(DBS, DBS.c.db_id == TBLS.c.db_id)
        .outerjoin(SDS, SDS.c.sd_id == TBLS.c.sd_id)
        .outerjoin(SERDES, SERDES.c.serde_id == SDS.c.serde_id)
    )


def _partitions() -> Select[tuple[Any, ...]]:
    return (
        select(PARTITIONS.c.part_id, PARTITIONS.c.tbl_id, PARTITIONS.c.part_name, *_STORAGE)
        .select_from(PARTITIONS)
        .outerjoin(SDS, SDS.c.sd_id == PARTITIONS.c.sd_id)
        .outerjoin(SERDES, SERDES.c.serde_id == SDS.c.serde_id)
    )


def _table_facts(connection: Connection, rows: Sequence[RowMapping]) -> list[TableFacts]:
    numbers = [row[TBLS.c.tbl_id] for row in rows]
    storages = _storages(connection, rows)
    params = _params(connection, TABLE_PARAMS, numbers)
    keys = _columns(connection, PARTITION_KEYS, numbers)
    return [
        TableFacts(
            database=row[DBS.c.name],
            name=row[TBLS.c.tbl_name],
            kind=row[TBLS.c.tbl_type] or "",
            storage=storage,
            partition_keys=keys[row[TBLS.c.tbl_id]],
            params=params[row[TBLS.c.tbl_id]],
            number=row[TBLS.c.tbl_id],
        )
        for row, storage in zip(rows, storages, strict=True)
    ]


def _partition_facts(connection: Connection, rows: Sequence[RowMapping]) -> list[PartitionFacts]:
    params = _params(connection, PARTITION_PARAMS, [row[PARTITIONS.c.part_id] for row in rows])
    return [
        PartitionFacts(
            name=row[PARTITIONS.c.part_name],
            storage=storage,
            params=params[row[PARTITIONS.c.part_id]],
            number=row[PARTITIONS.c.part_id],
        )
        for row, storage in zip(rows, _storages(connection, rows), strict=True)
    ]


def _storages(connection: Connection, rows: Sequence[RowMapping]) -> list[StorageFacts]:
    params = _params(connection, SERDE_PARAMS, [row[SDS.c.serde_id] for row in rows])
    ids = [row[SDS.c.sd_id] for row in rows]
    bucketed = _columns(connection, BUCKETING_COLS, ids)
    sorted_by = _columns(connection, SORT_COLS, ids)
    skewed = _columns(connection, SKEWED_COL_NAMES, ids)
    return [
        StorageFacts(
            location=row[SDS.c.location] or "",
            input_format=row[SDS.c.input_format] or "",
            serde=row[SERDES.c.slib] or "",
            serde_params=params[row[SDS.c.serde_id]],
            bucket_count=max(0, row[SDS.c.num_buckets] or 0),
            bucket_columns=bucketed[row[SDS.c.sd_id]],
            sort_columns=sorted_by[row[SDS.c.sd_id]],
            skewed_columns=skewed[row[SDS.c.sd_id]],
        )
        for row in rows
    ]


def _params(connection: Connection, table: Table, numbers: Sequence[int | None]) -> defaultdict[int, dict[str, str]]:
    owner, key, value = table.c
    found: defaultdict[int, dict[str, str]] = defaultdict(dict)
    for row in connection.execute(select(owner, key, value).where(owner.in_(_known(numbers)))):
        found[row[0]][row[1]] = row[2] or ""
    return found


def _columns(connection: Connection, table: Table, numbers: Sequence[int | None]) -> defaultdict[int, tuple[str, ...]]:
    """Names that belong to a table or a storage descriptor, in their order."""
    owner, name, position = table.c
    found: defaultdict[int, tuple[str, ...]] = defaultdict(tuple)
    for row in connection.execute(select(owner, name).where(owner.in_(_known(numbers))).order_by(owner, position)):
        found[row[0]] += (row[1],)
    return found


def _known(numbers: Sequence[int | None]) -> list[int]:
    """A view has no storage descriptor."""
    return sorted({number for number in numbers if number is not None})
