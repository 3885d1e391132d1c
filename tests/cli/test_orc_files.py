"""ORC files of a Hive directory from the command line: merged by their stripes, or left alone with the reason."""

import pytest
from orc_files import add_field, change_footer, orc_table, read_orc_files, write_orc_files
from pyarrow import orc


def the_units(done):
    """How each unit was done, and of how many files."""
    assert done.code == 0, done.out + done.err
    return [(unit["how"], len(unit["inputs"])) for unit in done.json["units"]]


@pytest.mark.parametrize(("rows", "how"), [(2_000, "stitch"), (100, "rewrite")])
def test_from_health_to_restore(packstone, lake, tree, rows, how):
    """Health and plan name the format and the way; the rows stay in order; verify proves them; restore undoes it."""
    folder = write_orc_files(lake.folder("dt=1"), rows=rows)
    rows, before = read_orc_files(folder), tree(lake.table)
    assert packstone("health", lake.table, "--format", "json").json["formats"] == {"orc": 6}
    assert the_units(packstone("plan", lake.table, "--format", "json")) == [("stitch", 6)]
    done = packstone("compact", lake.table, "--format", "json")
    assert the_units(done) == [(how, 6)]
    assert (done.json["rows"], done.json["files_after"]) == (rows.num_rows, 1)
    assert read_orc_files(folder).equals(rows)
    assert [name.endswith("m.orc") for name in lake.names("dt=1")] == [True]
    assert packstone("verify", done.json["run"], lake.table).code == 0
    assert packstone("compact", lake.table, "--format", "json").json["units"] == []
    assert packstone("restore", done.json["run"], lake.table, "--yes").code == 0
    assert tree(lake.table) == before


@pytest.mark.parametrize("rows", [2_000, 100])
def test_verify_finds_a_changed_output(packstone, lake, rows):
    """A byte of a stripe that changed after the run is found by ``verify``."""
    folder = write_orc_files(lake.folder(), rows=rows)
    run = packstone("compact", lake.table, "--format", "json").json["run"]
    (path,) = folder.glob("packstone-*")
    data = bytearray(path.read_bytes())
    data[900] ^= 1
    path.write_bytes(data)
    assert packstone("verify", run, lake.table).code == 1


def test_newer_files_join_older_outputs(packstone, lake):
    """Night after night the folder stays at one file."""
    folder = lake.folder()
    for night in range(3):
        for at in range(5):
            orc.write_table(orc_table((night * 5 + at) * 100), folder / f"{night}{at}.orc", compression="zstd")
        the_units(packstone("compact", lake.table, "--format", "json"))
        assert len(lake.names()) == 1
    assert sorted(read_orc_files(folder)["id"].to_pylist()) == list(range(1500))


def test_schemas_and_codecs_are_not_mixed(packstone, lake):
    """Files of two codecs become two files, each under its own."""
    write_orc_files(lake.folder("dt=1"), compression="zlib")
    for path in list(write_orc_files(lake.root / "other", compression="snappy").iterdir()):
        path.rename(lake.table / "dt=1" / f"s-{path.name}")
    done = packstone("compact", lake.table, "--format", "json")
    assert the_units(done) == [("rewrite", 6), ("rewrite", 6)]
    found = sorted(orc.ORCFile(path).compression for path in (lake.table / "dt=1").iterdir())
    assert found == ["SNAPPY", "ZLIB"]


@pytest.mark.parametrize(
    ("why", "change"),
    [
        ("encrypted", add_field(10, b"\x0a\x02ab")),
        ("transactional Hive table", add_field(5, b"\x0a\x0fhive.acid.stats\x12\x051,0,0")),
    ],
)
def test_left_alone(packstone, lake, tree, why, change):
    """What must not be merged stays byte for byte, with the reason, and is not a failure."""
    folder = write_orc_files(lake.folder())
    write_orc_files(lake.root / "odd", files=1)
    odd = lake.root / "odd" / "000.orc"
    change_footer(odd, change)
    odd.rename(folder / "odd.orc")
    before = tree(folder)["odd.orc"]
    done = packstone("compact", lake.table, "--format", "json")
    assert the_units(done) == [("rewrite", 6)]
    assert why in done.skipped("odd.orc")
    assert tree(folder)["odd.orc"] == before


def test_another_codec_is_not_made(packstone, lake, tree):
    """With ``--codec`` ORC files are left alone: copying stripes keeps theirs."""
    write_orc_files(lake.folder(), compression="zlib")
    before = tree(lake.table)
    done = packstone("compact", lake.table, "--codec", "zstd", "--format", "json")
    assert (done.code, done.json["units"]) == (0, [])
    assert "without --codec" in done.skipped("000.orc")
    assert tree(lake.table) == before


@pytest.mark.parametrize("keep", [3, 50, -3])
def test_a_torn_file_is_reported(packstone, lake, tree, keep):
    """A cut file stays, is named as unreadable, and the others are merged."""
    folder = write_orc_files(lake.folder())
    torn = folder / "torn.orc"
    torn.write_bytes((folder / "000.orc").read_bytes()[:keep])
    before = tree(folder)["torn.orc"]
    done = packstone("compact", lake.table, "--format", "json")
    assert (done.code, done.json["status"], len(done.json["units"][0]["inputs"])) == (1, "partial", 6)
    assert "torn.orc" in done.skipped("torn.orc")
    assert tree(folder)["torn.orc"] == before


def test_text_that_begins_like_orc(packstone, lake):
    """Words such as ORCHID are text, whatever the name."""
    folder = lake.text("", {f"f{at}": b"ORCHID,%d\n" % at for at in range(5)})
    done = packstone("compact", lake.table, "--format", "json")
    assert the_units(done) == [("concatenate", 5)]
    (path,) = folder.iterdir()
    assert path.read_bytes() == b"".join(b"ORCHID,%d\n" % at for at in range(5))
