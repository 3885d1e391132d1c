"""Reading a metastore's database: the schema was made by Hive itself."""

import pytest
from metastore_lake import DAYS

from packstone.catalog import metastore_database as database
from packstone.catalog.metastore_database import MetastoreDatabase
from packstone.errors import InvalidInputError, UnavailableError
from packstone.model.files import FileFormat

FORMATS = {
    "t_parquet": FileFormat.PARQUET,
    "t_orc": FileFormat.ORC,
    "t_textfile": FileFormat.TEXT,
    "t_avro": FileFormat.AVRO,
    "t_sequencefile": FileFormat.SEQUENCE_FILE,
    "t_rcfile": FileFormat.RC_FILE,
}


@pytest.fixture
def reader(metastore):
    """The metastore, open."""
    with MetastoreDatabase(metastore.url) as found:
        yield found


@pytest.mark.parametrize("name", FORMATS)
def test_formats_and_partitions(metastore, reader, name):
    """Every format that Hive stores is reported, for the table and each partition, with keys, names and locations."""
    table = reader.find_table("SALES", name.upper())
    assert (table.full_name, table.kind, table.partition_keys) == (f"sales.{name}", "MANAGED_TABLE", ("dt",))
    assert table.file_format() is FORMATS[name]
    partitions = list(reader.list_partitions(table))
    assert [one.name for one in partitions] == [f"dt={day}" for day in DAYS]
    assert {one.storage.file_format for one in partitions} == {FORMATS[name]}
    assert partitions[0].storage.location == f"file:{metastore.warehouse}/sales.db/{name}/dt={DAYS[0]}"


def test_hazard_28_partitions_that_differ_in_format(reader):
    """A partition's own descriptor is what counts, not that of its table."""
    table = reader.find_table("sales", "mixed")
    found = {one.name: one.storage.file_format for one in reader.list_partitions(table)}
    assert found == {"dt=text": FileFormat.TEXT, "dt=parquet": FileFormat.PARQUET, "dt=orc": FileFormat.ORC}


def test_headers_delimiters_and_locations(metastore, reader):
    """What the SerDe and the table's properties say of text is read; a partition may lie anywhere."""
    table = reader.find_table("sales", "headed")
    escaped, elsewhere = reader.list_partitions(table)
    assert table.partition_keys == ("dt", "hour")
    assert (table.header_lines(escaped), table.footer_lines(escaped)) == (1, 0)
    assert escaped.storage.serde_params["field.delim"] == ","
    assert escaped.name == "dt=a b%3Ac/hour=3"
    assert elsewhere.storage.location == f"file:{metastore.elsewhere}/hour4"
    assert elsewhere.name == "dt=2026-01-01/hour=4"


def test_buckets_orders_and_archives(reader):
    """What makes files mean more than their rows is reported."""
    bucketed = reader.find_table("sales", "bucketed").storage
    assert (bucketed.bucket_count, bucketed.bucket_columns, bucketed.sort_columns) == (4, ("id",), ("name",))
    archived = list(reader.list_partitions(reader.find_table("sales", "archived")))
    assert [one.is_archived for one in archived] == [False, True]
    assert reader.find_table("sales", "a_view").kind == "VIRTUAL_VIEW"
    assert reader.find_table("sales", "owned_outside").kind == "EXTERNAL_TABLE"


def test_pages_are_only_cuts(reader, monkeypatch):
    """However small the pages are, the same tables and partitions come, each once."""
    table = reader.find_table("sales", "mixed")
    whole = list(reader.list_tables()), list(reader.list_partitions(table))
    monkeypatch.setattr(database, "PAGE", 2)
    assert (list(reader.list_tables()), list(reader.list_partitions(table))) == whole
    assert len(whole[0]) > 15


def test_shared_locations(reader):
    """A table that lies at, above or below another one's folder is found out; one with neighbours only is not."""
    for name, other in (("shared_a", "shared_b"), ("outer_one", "inner_one"), ("inner_one", "outer_one")):
        table = reader.find_table("sales", name)
        assert reader.who_shares(table, table.location) == f"sales.{other}"
        assert reader.who_shares(table, f"{table.location}/") == f"sales.{other}"
    for name in ("t_parquet", "headed", "plain"):
        table = reader.find_table("sales", name)
        assert reader.who_shares(table, table.location) is None


def test_a_table_that_is_not_there(reader):
    """The arguments are invalid; one sentence says so, without user and password."""
    with pytest.raises(InvalidInputError, match=r"has no table sales\.nothing\.$") as told:
        reader.find_table("sales", "nothing")
    assert "packstone:" not in told.value.message


def test_passwords_come_from_the_environment_or_a_file_and_are_never_shown(metastore, monkeypatch, tmp_path):
    """An address without a password takes it from there; a wrong one is not repeated."""
    monkeypatch.setenv("PACKSTONE_METASTORE_PASSWORD", "not-a-secret")
    with MetastoreDatabase(metastore.bare_url) as found:
        assert found.find_table("sales", "plain").name == "plain"
    monkeypatch.delenv("PACKSTONE_METASTORE_PASSWORD")
    secret = tmp_path / "password"
    secret.write_text("not-a-secret\n", encoding="utf-8")
    monkeypatch.setenv("PACKSTONE_METASTORE_PASSWORD_FILE", str(secret))
    with MetastoreDatabase(metastore.bare_url) as found:
        assert found.find_table("sales", "plain").name == "plain"
    wrong = metastore.url.replace("not-a-secret", "hush-hush").replace(f"/{metastore.url.rpartition('/')[2]}", "/none")
    with MetastoreDatabase(wrong) as found, pytest.raises(UnavailableError) as told:
        found.find_table("sales", "plain")
    assert "hush-hush" not in told.value.message


def test_where_tables_and_partitions_are(reader, metastore):
    """As the metastore spells it; None for what is not there."""
    assert reader.read_location("sales.plain", "") == f"file:{metastore.warehouse}/sales.db/plain"
    assert reader.read_location("Sales.Headed", "dt=2026-01-01/hour=4") == f"file:{metastore.elsewhere}/hour4"
    assert reader.read_location("sales.a_view", "") == ""
    for table, partition in (("sales.nothing", ""), ("sales.headed", "dt=1/hour=1"), ("none.plain", "")):
        assert reader.read_location(table, partition) is None


def test_an_address_may_leave_the_driver_out(metastore):
    """The one that Packstone brings is taken."""
    scheme, _, rest = metastore.url.partition("://")
    with MetastoreDatabase(f"{scheme.partition('+')[0]}://{rest}") as found:
        assert found.find_table("sales", "plain").name == "plain"


def test_another_database_is_not_a_metastore(database_server):
    """Its tables are missing, and the sentence asks whether it is the right one."""
    with MetastoreDatabase(database_server.fresh()) as found, pytest.raises(UnavailableError) as told:
        found.find_table("sales", "plain")
    assert told.value.message.endswith("; is this the database of a Hive metastore?")
    assert "not-a-secret" not in told.value.message


@pytest.mark.parametrize("address", ["sqlite:///x.db", "nonsense", "oracle://a/b", "mysql+aiomysql://a/b"])
def test_addresses_that_cannot_work(address):
    """They are refused by name, before anything is connected."""
    with pytest.raises(InvalidInputError, match="metastore address"):
        MetastoreDatabase(address)
