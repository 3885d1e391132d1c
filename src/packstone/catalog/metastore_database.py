"""Read the database of a Hive metastore: one table by name, all tables, and partitions page by page.

Pages are cut by the primary key (``PART_ID > last``), so that a table with a million partitions needs as much memory as
one with a thousand, and every page costs the same. The database is opened for reading only. Its password comes from the
environment or from a file, and no message shows it (history/connect.py).
"""

from __future__ import annotations

from collections import defaultdict
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import (
    URL,
    BigInteger,
    Column,
    Connection,
    Engine,
    MetaData,
    RowMapping,
    Select,
    String,
    Table,
    create_engine,
    make_url,
    or_,
    select,
)
from sqlalchemy.exc import ArgumentError, DBAPIError, NoSuchModuleError, ProgrammingError, SQLAlchemyError
from sqlalchemy.sql import quoted_name

from packstone.errors import InvalidInputError, UnavailableError
from packstone.history.connect import (
    OpenDatabase,
    connect_args,
    display_url,
    with_driver,
    with_password,
    without_secrets,
)
from packstone.history.formats import FormatTable
from packstone.model.metastore import FormatRecord, PartitionFacts, StorageFacts, TableFacts
from packstone.runs.clock import now_utc
from packstone.storage.location import is_store_root, is_table_name, split_store

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from packstone.model.metastore import RefreshCounts, SeenFormat


# The tables of the database that are read here. Hive creates them, and only Hive writes to them. Names are upper-case
# and quoted, because PostgreSQL folds unquoted names. All versions of Hive from 1.2 to 4 have these columns.

_METADATA: Final = MetaData()
_NUMBERS: Final = frozenset(
    {"DB_ID", "TBL_ID", "SD_ID", "SERDE_ID", "PART_ID", "CD_ID", "INTEGER_IDX", "NUM_BUCKETS", "STRING_LIST_ID"}
)


def _table(name: str, *columns: str) -> Table:
    return Table(
        quoted_name(name, quote=True),
        _METADATA,
        *(
            Column(quoted_name(one, quote=True), BigInteger if one in _NUMBERS else String, key=one.lower())
            for one in columns
        ),
    )


DBS: Final = _table("DBS", "DB_ID", "NAME")
TBLS: Final = _table("TBLS", "TBL_ID", "DB_ID", "SD_ID", "TBL_NAME", "TBL_TYPE")
TABLE_PARAMS: Final = _table("TABLE_PARAMS", "TBL_ID", "PARAM_KEY", "PARAM_VALUE")
PARTITIONS: Final = _table("PARTITIONS", "PART_ID", "TBL_ID", "SD_ID", "PART_NAME")
PARTITION_KEYS: Final = _table("PARTITION_KEYS", "TBL_ID", "PKEY_NAME", "INTEGER_IDX")
PARTITION_PARAMS: Final = _table("PARTITION_PARAMS", "PART_ID", "PARAM_KEY", "PARAM_VALUE")
SDS: Final = _table("SDS", "SD_ID", "SERDE_ID", "LOCATION", "INPUT_FORMAT", "NUM_BUCKETS")
SERDES: Final = _table("SERDES", "SERDE_ID", "SLIB")
SERDE_PARAMS: Final = _table("SERDE_PARAMS", "SERDE_ID", "PARAM_KEY", "PARAM_VALUE")
BUCKETING_COLS: Final = _table("BUCKETING_COLS", "SD_ID", "BUCKET_COL_NAME", "INTEGER_IDX")
SORT_COLS: Final = _table("SORT_COLS", "SD_ID", "COLUMN_NAME", "INTEGER_IDX")


PAGE: Final = 2_000
_STORAGE = (SDS.c.sd_id, SDS.c.serde_id, SDS.c.location, SDS.c.input_format, SDS.c.num_buckets, SERDES.c.slib)


class MetastoreDatabase(OpenDatabase):
    """An open metastore, for reading only."""

    __slots__ = ()

    def __init__(self, address: str) -> None:
        super().__init__(open_metastore_engine(address))

    @property
    def key(self) -> str:
        """The identity of the metastore, without user and password."""
        return metastore_key(self._engine)

    def find_table(self, database: str, name: str) -> TableFacts:
        """Return one table, or raise InvalidInputError. Upper case is accepted; Hive's names are in lower case."""
        query = _tables().where(DBS.c.name == database.lower(), TBLS.c.tbl_name == name.lower())
        with one_sentence(self._engine), self._engine.connect() as connection:
            found = _table_facts(connection, connection.execute(query).mappings().all())
        if not found:
            raise InvalidInputError(f"The metastore {self.key} has no table {database}.{name}.")
        return found[0]

    def list_tables(self) -> Iterator[TableFacts]:
        """Yield all tables and views in the order of their creation."""
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
        """Yield the partitions of one table in the order of their creation."""
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
        """Yield the partitions of all tables, with their tables, in the order of their creation."""
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

    def read_location(self, table: str, partition: str) -> str | None:
        """Return the location of a partition, or of the table if ``partition`` is empty; None if it does not exist."""
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
        """Return the name of another table with a folder at, above or below a location; None if there is none."""
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


def _owners(on: Any) -> Select[tuple[Any, ...]]:
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
    return [
        StorageFacts(
            location=row[SDS.c.location] or "",
            input_format=row[SDS.c.input_format] or "",
            serde=row[SERDES.c.slib] or "",
            serde_params=params[row[SDS.c.serde_id]],
            bucket_count=max(0, row[SDS.c.num_buckets] or 0),
            bucket_columns=bucketed[row[SDS.c.sd_id]],
            sort_columns=sorted_by[row[SDS.c.sd_id]],
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
    """Return the column names of each table or storage descriptor, in order."""
    owner, name, position = table.c
    found: defaultdict[int, tuple[str, ...]] = defaultdict(tuple)
    for row in connection.execute(select(owner, name).where(owner.in_(_known(numbers))).order_by(owner, position)):
        found[row[0]] += (row[1],)
    return found


def _known(numbers: Sequence[int | None]) -> list[int]:
    """Return the distinct ids; None occurs because a view has no storage descriptor."""
    return sorted({number for number in numbers if number is not None})


# ---- connection ----

PASSWORD = "PACKSTONE_METASTORE_PASSWORD"  # noqa: S105 - the name of a variable
PASSWORD_FILE = "PACKSTONE_METASTORE_PASSWORD_FILE"  # noqa: S105 - the name of a variable
_EXAMPLES = "mysql+pymysql://hive@host/metastore or postgresql+psycopg://hive@host/metastore"
_BACKENDS = frozenset({"mysql", "mariadb", "postgresql"})


def open_metastore_engine(text: str) -> Engine:
    """Return an engine that has not connected yet."""
    url = _parse(text)
    backend = url.get_backend_name()
    try:
        # Parameters are hidden, because an error of the driver must not contain rows either.
        engine = create_engine(url, hide_parameters=True, pool_pre_ping=True, connect_args=connect_args(url))
    except NoSuchModuleError:
        raise InvalidInputError(_unknown(url)) from None
    except ImportError as error:
        raise InvalidInputError(
            f"The metastore address {display_url(url)} needs the Python package {error.name!r}, which is not "
            f"installed; run `pip install 'packstone[{'postgres' if backend == 'postgresql' else 'mysql'}]'`."
        ) from None
    if backend not in _BACKENDS or engine.dialect.is_async:
        raise InvalidInputError(_unknown(url))
    return engine


def metastore_key(engine: Engine) -> str:
    """Return an identity of a metastore that is safe to store: host, port and database."""
    url = engine.url
    port = f":{url.port}" if url.port else ""
    return f"{url.get_backend_name()}://{url.host or 'localhost'}{port}/{url.database or ''}"


@contextmanager
def one_sentence(engine: Engine) -> Iterator[None]:
    """Turn any database error into an UnavailableError of one sentence, without secrets."""
    try:
        yield
    except SQLAlchemyError as error:
        cause = error.orig if isinstance(error, DBAPIError) and error.orig is not None else error
        said = without_secrets(engine.url, cause)
        # `from None`: a stack trace of the cause may print the address or the parameters.
        hint = "; is this the database of a Hive metastore?" if isinstance(error, ProgrammingError) else ""
        raise UnavailableError(f"The metastore {display_url(engine.url)} cannot be read: {said}{hint or '.'}") from None


def _parse(text: str) -> URL:
    try:
        url = make_url(text)
    except (ArgumentError, ValueError):
        # The message does not repeat the address, because it is unknown which part of it is a password.
        raise InvalidInputError(
            f"The metastore address is neither a database URL nor the word spark; write for example {_EXAMPLES}."
        ) from None
    return with_password(with_driver(url), variable=PASSWORD, file_variable=PASSWORD_FILE)


def _unknown(url: URL) -> str:
    return (
        f"The metastore address {display_url(url)} names {url.drivername!r}, which is not supported; "
        f"write for example {_EXAMPLES}."
    )


# ---- locations ----
# A metastore stores locations as they were typed, so one folder can have several spellings.


def spellings_of(location: str) -> tuple[str, ...]:
    """Return the spellings of a location: ``file:/a``, ``file:///a``, ``/a``, with and without a last slash."""
    plain = location.rstrip("/")
    if plain.startswith("file:"):
        path = "/" + plain.removeprefix("file:").lstrip("/")
        spelled: tuple[str, ...] = (f"file:{path}", f"file://{path}", path)
    elif plain.startswith("/"):
        spelled = (plain, f"file:{plain}", f"file://{plain}")
    else:
        spelled = (plain,)
    return tuple(one + slash for one in spelled for slash in ("", "/"))


def ancestors_of(location: str) -> tuple[str, ...]:
    """Return the folders above a location, nearest first, without the root of its store."""
    plain = location.rstrip("/")
    prefix = ""
    if plain.startswith("file:"):
        prefix, plain = "file:", "/" + plain.removeprefix("file:").lstrip("/")
    found: list[str] = []
    at = plain.rpartition("/")[0]
    while at and not is_store_root(at) and split_store(at)[1] not in ("", "/"):
        found.append(prefix + at)
        at = at.rpartition("/")[0]
    return tuple(found)


# ---- formats ----
# ``packstone formats``: copy the file formats of a metastore into ``hive_format_type``, and look them up.


def refresh_formats(metastore_url: str, *, history: str) -> RefreshCounts:
    """Read all tables and partitions of a metastore and update the table of formats."""
    with MetastoreDatabase(metastore_url) as metastore, FormatTable(history) as formats:
        return formats.refresh(read_formats(metastore), metastore=metastore.key, clock=now_utc)


def read_formats(metastore: MetastoreDatabase) -> Iterator[FormatRecord]:
    """Yield a row for every table, then for every partition."""
    for table in metastore.list_tables():
        yield _record(metastore.key, table, None)
    for table, partition in metastore.list_all_partitions():
        yield _record(metastore.key, table, partition)


def find_formats(target: str, *, history: str) -> tuple[SeenFormat, ...]:
    """Return the recorded formats of ``db.table``, ``db.table/dt=1`` or a location."""
    name, _, partition = target.partition("/")
    with FormatTable(history) as formats:
        if is_table_name(name):
            database, _, table = name.partition(".")
            found = formats.list_formats(database=database.lower(), table=table.lower(), partition=partition)
        else:
            found = formats.find_formats(*spellings_of(target))
    if not found:
        raise InvalidInputError(f"No format of {target} is recorded; `packstone formats refresh` reads the metastore.")
    return found


def _record(metastore: str, table: TableFacts, partition: PartitionFacts | None) -> FormatRecord:
    storage = table.storage if partition is None else partition.storage
    return FormatRecord(
        metastore=metastore,
        database=table.database,
        table=table.name,
        partition="" if partition is None else partition.name,
        table_type=table.kind,
        file_format=table.file_format(storage).value,
        input_format=storage.input_format,
        serde=storage.serde,
        location=table.location if partition is None else storage.location,
        field_delimiter=storage.serde_params.get("field.delim", ""),
        header_lines=table.header_lines(partition) or 0,
        bucket_count=storage.bucket_count,
    )
