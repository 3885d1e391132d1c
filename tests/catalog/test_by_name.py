"""Health, plan and compact of tables by their name."""

import re
import shutil

import pytest
from metastore_lake import names, read_ids, write_parquet

import packstone
from packstone.errors import RefusedError

REFUSED = {
    "acid": "is a Hive ACID (transactional) table; use ALTER TABLE … COMPACT in Hive",
    "bucketed": "is bucketed by id into 4, sorted by name; the number and order of its files mean something",
    "a_view": "is a view and has no files of its own",
    "handled": "is not native to Hive: its storage handler is org.apache.hadoop.hive.hbase.HBaseStorageHandler",
    "lake_delta": "is a Delta Lake table; use OPTIMIZE in Delta Lake",
    "lake_iceberg": "is an Apache Iceberg table; use Iceberg's rewrite_data_files",
    "shared_a": "shares file:",
    "inner_one": "shares file:",
}


@pytest.mark.parametrize("command", ["health", "plan", "compact"])
@pytest.mark.parametrize("table", REFUSED)
def test_refused_by_name(by_name, command, table):
    """A table that must not be merged is refused with one sentence that names it, and exit code 3."""
    done = by_name(command, f"sales.{table}")
    assert done.code == 3, done
    assert done.sentence.startswith(f"packstone: sales.{table} {REFUSED[table]}"), done.err
    assert done.sentence.endswith("; nothing was changed.")


def test_hazard_07_hives_own_buckets(by_name):
    """What no name of a file tells, the metastore does: a table that Hive bucketed is refused."""
    assert by_name("compact", "sales.bucketed").code == 3


def test_hazard_08_the_order_of_a_table(by_name):
    """SORTED BY goes with buckets in Hive, and is named where it refuses."""
    assert "sorted by name" in by_name("plan", "sales.bucketed").sentence


def test_hazard_38_two_tables_in_one_folder(by_name):
    """The other table is named."""
    assert "with sales.shared_b, at, above or below it" in by_name("compact", "sales.shared_a").sentence


def test_hazard_37_external_tables(by_name, metastore):
    """An external table is merged, and health says that it may be somebody else's too."""
    write_parquet(metastore.elsewhere / "external")
    health = by_name("health", "sales.owned_outside")
    assert "external-table" in {one["hazard"] for one in health.json["hazards"]}
    assert by_name("compact", "sales.owned_outside").json["files_after"] == 1
    assert read_ids(metastore.elsewhere / "external") == list(range(60))


def test_partitions_that_the_metastore_knows(by_name, metastore):
    """They are merged, each for itself; a folder that is not a partition of the table is not touched."""
    first, second = (metastore.folder("t_parquet", f"dt=2026-01-0{day}") for day in (1, 2))
    stray = metastore.folder("t_parquet", "dt=1999")
    for folder in (first, second, stray):
        write_parquet(folder)
    assert by_name("health", "sales.t_parquet").json["files"] == 12
    plan = by_name("plan", "sales.t_parquet").json
    assert (plan["status"], plan["name"], plan["files_after"]) == ("planned", "sales.t_parquet", 2)
    done = by_name("compact", "sales.t_parquet", "--where", "dt = '2026-01-01'")
    assert (done.code, done.json["status"], done.json["files_before"], done.json["files_after"]) == (
        0,
        "committed",
        12,
        7,
    )
    assert read_ids(first) == list(range(60))
    assert [len(names(one)) for one in (first, second, stray)] == [1, 6, 6]
    assert by_name("compact", "sales.t_parquet").json["files_after"] == 2
    assert by_name("compact", "sales.t_parquet").json["status"] == "nothing-to-do"


def test_a_table_without_partitions(by_name, metastore):
    """Its folder is merged as one."""
    write_parquet(metastore.folder("plain"))
    assert by_name("compact", "sales.plain").json["files_after"] == 1
    assert read_ids(metastore.folder("plain")) == list(range(60))


def test_hazard_28_each_partition_by_its_own_descriptor(by_name, metastore):
    """Text is merged where the metastore says text; a Parquet file there is what no reader takes it for."""
    text, parquet = metastore.folder("mixed", "dt=text"), metastore.folder("mixed", "dt=parquet")
    write_parquet(parquet)
    write_parquet(text, files=1)
    for number in range(6):
        (text / f"lines-{number}").write_bytes(b"%d\x01a\n" % number)
    done = by_name("compact", "sales.mixed")
    assert (done.code, done.json["status"]) == (1, "partial"), done
    assert done.skipped("part-00000.parquet") == "it is parquet, but the metastore says that text is here"
    assert (len(names(text)), len(names(parquet))) == (2, 1)
    (merged,) = (path for path in text.iterdir() if path.name.startswith("packstone-"))
    assert merged.read_bytes() == b"".join(b"%d\x01a\n" % number for number in range(6))


def test_headers_and_partitions_elsewhere(by_name, metastore):
    """The metastore's header is kept once; a partition outside the table's folder is a target of its own."""
    inside = metastore.folder("headed", "dt=a b%3Ac/hour=3")
    outside = metastore.elsewhere / "hour4"
    outside.mkdir(parents=True)
    for folder in (inside, outside):
        for number in range(6):
            (folder / f"f{number}.csv").write_bytes(b"id,name\n%d,a\n" % number)
    merged = b"id,name\n" + b"".join(b"%d,a\n" % number for number in range(6))
    done = by_name("compact", "sales.headed")
    assert (done.code, done.json["status"], done.json["files_after"]) == (0, "committed", 2), done
    for folder in (inside, outside):
        (name,) = names(folder)
        assert (folder / name).read_bytes() == merged
    assert {one["table"] for one in done.json["runs"]} == {str(metastore.folder("headed")), str(outside)}
    assert by_name("plan", "sales.headed", "--where", "hour = 4").json["status"] == "nothing-to-do"


def test_a_shared_partition_elsewhere_is_found_before_anything_is_merged(by_name, metastore):
    """Another table at the folder of one partition: the table is refused, and its other partitions are as they were."""
    mark = {"mariadb": "`", "postgres": '"'}[metastore.kind]
    change = "update SDS set LOCATION = '{}' where SD_ID = (select SD_ID from TBLS where TBL_NAME = 'shared_b')"
    for word in ("SDS", "LOCATION", "SD_ID", "TBLS", "TBL_NAME"):
        change = re.sub(rf"\b{word}\b", f"{mark}{word}{mark}", change)
    inside = metastore.folder("headed", "dt=a b%3Ac/hour=3")
    (metastore.elsewhere / "hour4").mkdir(parents=True, exist_ok=True)
    for number in range(6):
        (inside / f"late-{number}.csv").write_bytes(b"id,name\n%d,a\n" % number)
    before = names(inside)
    metastore.run(change.format(f"file:{metastore.elsewhere}/hour4"))
    try:
        done = by_name("compact", "sales.headed", "--set", "min-files=2")
    finally:
        metastore.run(change.format(f"file:{metastore.elsewhere}/shared"))
    assert (done.code, "with sales.shared_b, at, above or below it" in done.sentence) == (3, True)
    assert names(inside) == before


def test_an_archived_partition_beside_others(by_name, metastore):
    """It is refused for itself, and the others are merged."""
    plain, archived = metastore.folder("archived", "dt=1"), metastore.folder("archived", "dt=2")
    for folder in (plain, archived):
        for number in range(6):
            (folder / f"f{number}").write_bytes(b"%d\n" % number)
    done = by_name("compact", "sales.archived")
    assert (done.code, done.json["status"]) == (0, "committed")
    assert done.skipped("dt=2") == "sales.archived dt=2 is archived (HAR); use ALTER TABLE … UNARCHIVE in Hive first"
    assert (len(names(plain)), len(names(archived))) == (1, 6)


def test_names_need_a_metastore_and_paths_do_not(packstone, by_name, metastore, lake):
    """A name without a metastore gets a sentence that says what to give; a metastore with a path is a slip."""
    assert "--metastore URL" in packstone("plan", "sales.plain").sentence
    assert by_name("plan", lake.folder()).code == 2
    done = by_name("plan", "sales.plain", "--ids", "0")
    assert (done.code, "--ids is for segment tables" in done.err) == (2, True)


def test_the_address_comes_from_the_environment(packstone, metastore, monkeypatch):
    """PACKSTONE_METASTORE is as good as the option."""
    metastore.folder("t_orc")
    monkeypatch.setenv("PACKSTONE_METASTORE", metastore.url)
    assert packstone("health", "sales.t_orc", "--format", "json").json["table"] == "sales.t_orc"


def test_hazard_27_caches_are_refreshed_by_a_command(by_name, metastore, tmp_path):
    """``--after-publish`` receives the table, the run and the partitions, only if something was published."""
    write_parquet(metastore.folder("mixed", "dt=parquet"), files=6, first=100)
    told = tmp_path / "told"
    hook = f"echo said on stdout; printf '%s|%s|%s' $PACKSTONE_TABLE $PACKSTONE_RUN $PACKSTONE_PARTITIONS > {told}"
    done = by_name("compact", "sales.mixed", "--after-publish", hook, "--where", "dt = 'parquet'")
    assert told.read_text() == f"sales.mixed|{done.json['run']}|dt=parquet"
    told.unlink()
    by_name("compact", "sales.mixed", "--after-publish", hook, "--where", "dt = 'parquet'")
    assert not told.exists()
    write_parquet(metastore.folder("mixed", "dt=parquet"), files=6, first=200)
    failed = by_name("compact", "sales.mixed", "--after-publish", "exit 7", "--where", "dt = 'parquet'")
    assert (failed.code, failed.json["status"]) == (0, "committed")
    assert "--after-publish ended with exit code 7; refresh sales.mixed by hand" in failed.json["warnings"][0]


def test_what_cannot_be_published_by_location(by_name, packstone, metastore, lake):
    """A path; a partition elsewhere is left, with the reason."""
    done = packstone("compact", lake.folder(), "--publish", "location")
    assert (done.code, "needs a table's name and --metastore" in done.sentence) == (2, True)
    metastore.folder("headed")
    (metastore.elsewhere / "hour4").mkdir(parents=True, exist_ok=True)
    done = by_name("compact", "sales.headed", "--publish", "location")
    assert "is outside the table's folder" in done.json["skipped"][-1]["why"]


def test_maintenance_by_name(by_name, metastore):
    """A run by name is undone and cleaned by name too, and recovery finds nothing to do; no Spark is needed for it."""
    folder = metastore.folder("t_parquet", "dt=2026-01-02")
    write_parquet(folder, files=6, first=300)
    before = names(folder)
    run = by_name("compact", "sales.t_parquet", "--where", "dt = '2026-01-02'").json["run"]
    assert by_name("recover", "sales.t_parquet").json["status"] == "nothing-to-do"
    assert by_name("verify", run, "sales.t_parquet").json["status"] == "verified"
    for command in ("clean", "recover"):
        done = by_name(command, "sales.a_view")
        assert (done.code, done.sentence) == (2, "packstone: sales.a_view has no files of its own: it is a view.")
    assert by_name("restore", run, "sales.t_parquet", "--yes").json["status"] == "restored"
    assert names(folder) == before
    assert by_name("clean", "sales.t_parquet", "--yes").json["status"] == "nothing-to-do"


def test_open_by_name(metastore, monkeypatch):
    """`packstone.open("db.table")` is one table of Python's, with its verbs: plan, compact, verify, restore."""
    monkeypatch.setenv("PACKSTONE_ENGINE", "inline")
    first, second = (metastore.folder("t_parquet", f"dt=2026-01-0{day}") for day in (1, 2))
    for folder in (first, second):
        shutil.rmtree(folder, ignore_errors=True)  # of other tests
    write_parquet(first)
    ids = read_ids(first)
    with packstone.open("sales.t_parquet", metastore=metastore.url, history=None) as table:
        assert (table.family, table.name, table.health().files) == ("hive", "sales.t_parquet", 6)
        plan = table.plan()
        assert plan.outcome.name == "sales.t_parquet"
        outcome = table.compact(plan)
        assert (outcome.status, outcome.files_after, names(first)[0][:9]) == ("committed", 1, "packstone")
        assert table.verify(outcome.run).problems == ()
        assert table.restore(outcome.run).files_restored == 6
    assert read_ids(first) == ids
    with pytest.raises(RefusedError, match=r"sales\.acid is a Hive ACID"):
        packstone.open("sales.acid", metastore=metastore.url)
