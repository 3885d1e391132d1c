"""``packstone formats``: the table of formats follows the metastore."""

import pytest

from packstone.history import formats as formats_module


@pytest.fixture
def formats(packstone, metastore, request):
    """Run ``packstone formats`` with this metastore, and with the history in the same kind of database."""
    server = request.getfixturevalue(metastore.kind)
    history = server.fresh()

    def call(command: str, *arguments: object):
        where = ("--metastore", metastore.url) if command == "refresh" else ()
        return packstone("formats", command, *arguments, *where, "--history", history, "--format", "json")

    return call


def counts(done) -> tuple[int, ...]:
    """What a refresh did."""
    return tuple(done.json[name] for name in ("added", "changed", "same", "removed"))


def change(metastore, *statements):
    """Change the metastore behind everybody's back, as Hive would."""
    quote = (lambda text: text) if metastore.kind == "postgres" else (lambda text: text.replace('"', ""))
    metastore.run("".join(f"{quote(one)};\n" for one in statements))


def test_refresh_adds_changes_and_removes(formats, metastore, monkeypatch):
    """All tables and partitions come once; a second refresh changes nothing; what changed or went follows."""
    monkeypatch.setattr(formats_module, "PAGE", 5)
    added, *others = counts(formats("refresh"))
    assert (added, others) == (41, [0, 0, 0])
    assert counts(formats("refresh")) == (0, 0, 41, 0)
    where = "\"PART_NAME\" = 'dt=orc'"
    change(
        metastore,
        f'update "PARTITIONS" set "PART_NAME" = \'dt=renamed\' where {where}',
        'update "SDS" set "INPUT_FORMAT" = \'org.apache.hadoop.mapred.TextInputFormat\' '
        "where \"LOCATION\" like '%/sales.db/plain'",
    )
    assert counts(formats("refresh")) == (1, 1, 39, 1)
    assert formats("show", "sales.plain").json["formats"][0]["file_format"] == "text"
    change(
        metastore,
        f'update "PARTITIONS" set "PART_NAME" = \'dt=orc\' where {where.replace("orc", "renamed")}',
        'update "SDS" set "INPUT_FORMAT" = \'org.apache.hadoop.hive.ql.io.parquet.MapredParquetInputFormat\' '
        "where \"LOCATION\" like '%/sales.db/plain'",
    )


def test_asked_by_name_and_by_location(formats, metastore):
    """The format of a partition is found by its name, and by its location however that is spelled."""
    formats("refresh")
    (row,) = formats("show", "sales.mixed/dt=parquet").json["formats"]
    assert (row["file_format"], row["table_type"], row["partition"]) == ("parquet", "MANAGED_TABLE", "dt=parquet")
    path = f"{metastore.warehouse}/sales.db/mixed/dt=parquet"
    for spelled in (path, f"file:{path}", f"file://{path}/"):
        assert formats("show", spelled).json["formats"] == [row]
    (headed,) = formats("show", "sales.headed").json["formats"]
    assert (headed["header_lines"], headed["field_delimiter"], headed["file_format"]) == (1, ",", "text")
    assert formats("show", "sales.nothing").code == 2


def test_lists(formats):
    """All, those of a database, those of a table; no more than requested."""
    formats("refresh")
    assert len(formats("list").json["formats"]) == 41
    assert len(formats("list", "sales", "--limit", "7").json["formats"]) == 7
    assert [one["partition"] for one in formats("list", "SALES.mixed").json["formats"]] == [
        "",
        "dt=orc",
        "dt=parquet",
        "dt=text",
    ]
    assert formats("list", "nothing").json["formats"] == []


def test_two_metastores_in_one_history(formats, metastore, packstone, request):
    """A refresh removes only what its own metastore has lost."""
    formats("refresh")
    server = request.getfixturevalue(metastore.kind)
    history = server.fresh()
    other = metastore.url.replace("127.0.0.1", "localhost")
    for url in (metastore.url, other):
        done = packstone("formats", "refresh", "--metastore", url, "--history", history, "--format", "json")
        assert counts(done) == (41, 0, 0, 0)


def test_the_table_is_drawn(packstone, metastore, tmp_path):
    """Without ``--format json`` it is a table to read; in SQLite too."""
    history = f"sqlite:///{tmp_path}/formats.db"
    done = packstone("formats", "refresh", "--metastore", metastore.url, "--history", history)
    assert done.out == "41 added, 0 changed, 0 same, 0 removed\n"
    drawn = packstone("formats", "list", "sales.t_orc", "--history", history).out
    assert drawn.splitlines()[1].split()[:2] == ["sales.t_orc", "orc"]
