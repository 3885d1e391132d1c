"""`packstone simulate` through the real command line: numbers, comparison, drawing, chart files, refusals."""

import subprocess
import sys
from io import StringIO
from xml.etree import ElementTree as ET

import pytest

PILE = ("minor", "--arrivals", "120", "--size", "50", "--label", "4,3", "--compare", "4,3,3: --level-threshold 4,3,3")
SVG = "{http://www.w3.org/2000/svg}"


def simulate(packstone, *words):
    """The answer as JSON."""
    done = packstone("simulate", *words, "--format", "json")
    assert (done.code, done.err) == (0, "")
    assert done.json["format_version"] == 1
    return done.json


def final(packstone, *words, label=None):
    """The last point of one setting; the first one unless named."""
    settings = simulate(packstone, *words)["settings"]
    return next(one for one in settings if label in {None, one["label"]})["final"]


def drawn(packstone, monkeypatch, *words, width=100):
    """What stands on a terminal of this width, without colours."""
    from rich.console import Console

    page = StringIO()
    monkeypatch.setattr(
        "packstone.cli.output.make_console", lambda: Console(file=page, width=width, no_color=True, emoji=False)
    )
    assert packstone("simulate", *words).code == 0
    return page.getvalue()


def test_the_json_has_all_series(packstone):
    """Settings stand side by side, every list is as long as the others, and the last point is the final one."""
    found = simulate(packstone, *PILE)
    assert found["pattern"] == {"arrivals": 120, "size_mb": [50], "update_pct": 0.0, "every_seconds": 3600}
    assert [one["label"] for one in found["settings"]] == ["4,3", "4,3,3"]
    assert [one["final"]["read_amp"] for one in found["settings"]] == [10, 4]
    assert found["settings"][1]["options"] == {"level_threshold": "4,3,3"}
    for one in found["settings"]:
        series = one["series"]
        groups = series.pop("groups")
        lists = [*series.values(), *(values for group in groups.values() for values in group.values())]
        assert {len(values) for values in lists} == {120}
        assert {name: values[-1] for name, values in series.items()}.items() <= one["final"].items()
        assert one["peak"]["read_amp"] == max(series["read_amp"])
        assert one["mean"]["read_amp"] == pytest.approx(sum(series["read_amp"]) / 120, abs=1e-4)
    assert "chart" not in found


def test_the_series_are_bounded(packstone):
    """At most 200 points, the last load among them."""
    series = simulate(packstone, "full", "--arrivals", "1234")["settings"][0]["series"]
    assert len(series["arrivals"]) == 200
    assert series["arrivals"][-1] == 1234
    assert series["arrivals"] == sorted(set(series["arrivals"]))


@pytest.mark.parametrize(
    "strategy", ["universal", "force-up-level0", "full", "minor", "major", "small-files", "append"]
)
def test_every_strategy_can_be_simulated(packstone, strategy):
    """Nothing is overwritten, so nothing is lost and all that is stored is live."""
    point = final(packstone, strategy, "--arrivals", "60")
    assert point["stored_bytes"] == point["live_bytes"] == point["arrived_bytes"] == 600 * 2**20
    assert 1 <= point["read_amp"] < 60
    assert point["write_amp"] > 0


def test_the_pattern_is_understood(packstone):
    """Sizes in turn, updates, time between loads, the table at the start."""
    assert final(packstone, "full", "--arrivals", "4", "--size", "1,2.5")["arrived_bytes"] == 7 * 2**20
    assert final(packstone, "full", "--arrivals", "2", "--update-pct", "50")["stored_bytes"] == 15 * 2**20
    for every in ("900", "15m"):
        assert final(packstone, "full", "--arrivals", "5", "--every", every)["seconds"] == 3600
    assert final(packstone, "universal", "5:100", "--arrivals", "1")["stored_bytes"] == 110 * 2**20
    assert final(packstone, "minor", "3:100@5", "--arrivals", "3")["read_amp"] == 1
    assert final(packstone, "append", "300x2", "--arrivals", "1")["read_amp"] == 3
    assert final(packstone, "small-files", "300", "--arrivals", "5")["read_amp"] == 2


def test_the_schedule_is_understood(packstone):
    """Never, every n-th load, one round."""
    assert final(packstone, "full", "--arrivals", "9", "--compact-every", "0")["read_amp"] == 9
    assert final(packstone, "full", "--arrivals", "9", "--compact-every", "4")["read_amp"] == 2
    once = ("minor", "--arrivals", "12", "--compact-every", "12", "--one-round")
    assert final(packstone, *once)["read_amp"] == 9


def test_early_sizes_are_in_megabytes(packstone):
    """As all sizes of a simulation are."""
    assert final(packstone, "universal", "--arrivals", "3", "--early-total", "31")["read_amp"] == 1
    assert final(packstone, "universal", "--arrivals", "3", "--early-total", "30")["read_amp"] == 2


def test_another_strategy_can_be_compared(packstone):
    """Options of the first one that the other does not know are left behind, shared ones are kept."""
    words = ("minor", "--level-threshold", "2,0", "--preserve", "3", "--arrivals", "20", "--compare", "big: major")
    big = simulate(packstone, *words)["settings"][1]
    assert big["strategy"] == "major"
    assert big["options"] == {"preserve": 3}
    other = simulate(packstone, *words[:3], "--compare", "tree: universal --trigger 3")["settings"][1]
    assert other["options"] == {"trigger": 3}


def test_settings_without_a_label_are_called_by_what_differs(packstone):
    """The first one by its strategy and its values where the others have another."""
    words = ("append", "--target-mb", "64", "--leftovers", "--arrivals", "3", "--compare", "--target-mb 128")
    assert [one["label"] for one in simulate(packstone, *words)["settings"]] == [
        "append --target-mb 64",
        "--target-mb 128",
    ]
    words = ("append", "--leftovers", "--arrivals", "3", "--compare", "a: --target-mb 64")
    assert simulate(packstone, *words)["settings"][0]["label"] == "append"
    words = ("minor", "--arrivals", "3", "--compare", "a: --as-coded")
    assert simulate(packstone, *words)["settings"][0]["label"] == "minor"
    words = ("minor", "--as-coded", "--arrivals", "3", "--compare", "a: --level-threshold 4,4")
    assert simulate(packstone, *words)["settings"][0]["label"] == "minor --level-threshold 4,3"


def test_what_is_odd_is_noted(packstone, monkeypatch):
    """The notes of `explain` are reported once, whatever the number of settings."""
    words = ("minor", "--arrivals", "3", "--level-threshold", "4,1", "--compare", "a: --preserve 1")
    assert simulate(packstone, *words)["notes"] == [
        "a threshold of 1 has the same effect as 0: a single segment is never merged"
    ]
    assert drawn(packstone, monkeypatch, *words).count("note  a threshold of 1") == 1


@pytest.mark.parametrize("width", [40, 60, 80, 100, 200])
@pytest.mark.parametrize(
    "words",
    [
        PILE,
        (*PILE, "--show", "read,write,space,files,stored,loads,.1,.2"),
        ("universal", "5:10000", "--update-pct", "50", "--show", "L0,L5,write", "--arrivals", "7"),
        ("append", "--arrivals", "1", "--show", "arrived"),
        (
            *("full", "--compact-every", "0", "--arrivals", "60", "--every", "0"),
            *(word for at in range(7) for word in ("--compare", f"{at}: --trigger {at + 2}")),
        ),
    ],
    ids=["pile", "all", "tree", "one", "many"],
)
def test_the_drawing_keeps_to_the_width_and_needs_no_colour(packstone, monkeypatch, words, width):
    """At any width no area is wider than the terminal."""
    page = drawn(packstone, monkeypatch, *words, width=width)
    assert max(map(len, page.splitlines())) <= width
    assert any(block in page for block in "▁▂▃▄▅▆▇█")
    assert "after loads" in page


def test_areas_share_a_scale(packstone, monkeypatch):
    """The one with fewer segments is drawn lower."""
    page = drawn(packstone, monkeypatch, *PILE, "--show", "read")
    _, first, rest = page.split("4,3\n", 1)[0], *page.split("4,3\n", 1)[1].split("4,3,3\n", 1)
    second = rest.split("after loads")[0]
    assert first.count("█") > 1.5 * second.count("█")
    assert "14 ┤" in first
    assert "14 ┤" in second


def test_labels_are_no_markup(packstone, monkeypatch):
    """Brackets and control characters in a label are printed unchanged, escaped where they would move the cursor."""
    page = drawn(
        packstone, monkeypatch, "full", "--label", "[red]x\x1b", "--compare", "[/]: --trigger 3", "--arrivals", "3"
    )
    assert "[red]x\\x1b" in page
    assert "[/]" in page


@pytest.mark.parametrize("count", [1, 2, 4])
def test_a_chart_is_an_svg_that_parses(packstone, tmp_path, count):
    """It shows the labels and titles as text, holds no path or date, and comes out the same again."""
    shown = ",".join(("read", "write", "stored", ".2")[:count])
    words = ("simulate", *PILE, "--show", shown, "--chart")
    done = packstone(*words, tmp_path / "a.svg")
    assert done.code == 0
    assert "chart" in done.out
    text = (tmp_path / "a.svg").read_text()
    said = {element.text for element in ET.fromstring(text).iter(f"{SVG}text")}  # noqa: S314 - our own file
    assert {"4,3", "4,3,3", "segments to read", "loads"} <= said
    assert str(tmp_path) not in text
    assert "dc:date" not in text
    assert packstone(*words, tmp_path / "b.svg").code == 0
    assert (tmp_path / "b.svg").read_text() == text


def test_a_chart_is_a_png_that_opens(packstone, tmp_path):
    """With the size that two panels need, and without metadata."""
    from PIL import Image

    found = simulate(packstone, "universal", "--update-pct", "0", "--arrivals", "9", "--chart", tmp_path / "a.PNG")
    assert found["chart"] == str(tmp_path / "a.PNG")
    with Image.open(tmp_path / "a.PNG") as picture:
        picture.load()
        assert picture.size == (1380, 510)
        assert "Software" not in picture.info


def test_big_bytes_are_drawn_in_gigabytes(packstone, tmp_path):
    """An axis has round numbers."""
    words = ("full", "--size", "1000", "--arrivals", "9", "--show", "stored", "--chart", tmp_path / "a.svg")
    assert packstone("simulate", *words).code == 0
    assert " GB<" in (tmp_path / "a.svg").read_text()


def test_without_matplotlib_one_sentence_says_how_to_install_it(packstone, tmp_path, monkeypatch):
    """And everything else works."""
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    done = packstone("simulate", "full", "--chart", tmp_path / "a.svg")
    assert done.code == 2
    assert done.sentence == "packstone: --chart needs matplotlib; install it with: pip install 'packstone[charts]'"
    assert packstone("simulate", "full", "--arrivals", "3").code == 0


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("nothing",), "'nothing' is not one of"),
        (("custom",), "'custom' is not one of"),
        (("minor", "--arrivals", "0"), "--arrivals"),
        (("minor", "--arrivals", "10001"), "--arrivals"),
        (("minor", "--size", "0"), "less than 0.000001 MB"),
        (("minor", "--size", "1,x"), "'x' is not a number of megabytes"),
        (("minor", "--size", "9999999999"), "simulate fewer or smaller loads"),
        (("minor", "--update-pct", "101"), "--update-pct"),
        (("minor", "--every", "soon"), "'soon' is not a duration"),
        (("minor", "--compact-every", "-1"), "--compact-every"),
        (("minor", "--rules", "1.4"), "--rules belongs to universal, force-up-level0, full, not to minor"),
        (("minor", "--today", "3"), "No such option"),
        (("minor", "--level-threshold", "x"), "'x' is not a level threshold"),
        (("universal", "0:x"), "'0:x' is not an item"),
        (("append", "--update-pct", "5"), "Rows under append have no keys"),
        (("minor", "--update-pct", "5", "--compare", "a: small-files"), "Rows under small-files have no keys"),
        (("minor", "--compare", "a: --rules 1.4"), "--rules belongs to"),
        (("minor", "--compare", "a: --preserve x"), "--compare 'a: --preserve x': Invalid value for '--preserve'"),
        (("minor", "--compare", "a: --arrivals 3"), "No such option '--arrivals'"),
        (("minor", "--compare", "a: nothing"), "'nothing' is not one of"),
        (("minor", "--compare", 'a: "'), "No closing quotation"),
        (("minor", "--compare", ": --preserve 1"), "has no label"),
        (("minor", "--compare", "minor: --preserve 1", "--label", "minor"), "Two settings have the label 'minor'"),
        (("minor", "0", "--compare", "a: universal"), "Items describe one kind of table"),
        (("minor", "--arrivals", "3", "--show", "L1"), "--show 'L1' is not a metric; choose from read"),
        (("minor", "--chart", "a.gif"), "must end in .svg or .png"),
        (("minor", "--chart", "no/such/a.svg"), "is in a folder that does not exist"),
    ],
)
def test_a_wrong_call_is_one_sentence_and_exit_code_2(packstone, words, sentence):
    """Nothing on stdout, one line on stderr that says what to do."""
    done = packstone("simulate", *words)
    assert done.code == 2
    assert done.out == ""
    assert sentence in done.sentence


def test_nothing_heavy_is_imported():
    """Neither Spark nor Arrow, and no matplotlib without a chart."""
    call = "run(['simulate', 'minor', '--arrivals', '9'])"
    code = f"import sys; from packstone.cli.main import run; {call}; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.splitlines()[-1].split())
    assert "rich" in loaded
    assert not loaded & {"pyspark", "pyarrow", "numpy", "matplotlib", "sqlalchemy", "pandas"}


def test_the_help_names_every_option_once_and_imports_no_drawing(packstone):
    """Grouped by what they are about; what makes no sense over time is not there."""
    text = packstone("simulate", "--help").out
    for option in ("--arrivals", "--size", "--every", "--levels", "--leftovers", "--compare", "--chart", "--format"):
        assert text.count(f"  {option} ") == 1
    assert "--today" not in text
    assert "--ids" not in text
    assert "custom" not in text
