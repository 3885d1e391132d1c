"""The page on scans leaves nothing out: options of the data source and of `query`, caches, words of `col`."""

import re
from pathlib import Path

import pytest

from packstone.cli.commands.query import command as query
from packstone.model.sizes import format_bytes
from packstone.pipeline.duckdb_sql import MEMORY_LIMIT
from packstone.pipeline.scan import Scan
from packstone.query.filter.expression import Column
from packstone.query.scan.caches import DEFAULT_BYTES

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "scan.md").read_text(encoding="utf-8")


def test_every_option_of_the_data_source_is_documented():
    """Each has its row."""
    datasource = pytest.importorskip("pyspark.sql.datasource", reason="Python data sources need Spark 4.0")
    assert datasource.DataSource
    from packstone.spark.data_source import OPTIONS

    for option in OPTIONS:
        assert f"| `{option}` |" in PAGE


@pytest.mark.parametrize("option", [parameter.opts[0] for parameter in query.params if parameter.opts[0] != "--debug"])
def test_every_option_of_query_is_documented(option):
    """PATH and STATEMENT too."""
    assert option.removesuffix("ment") in PAGE or option.upper() in PAGE


@pytest.mark.parametrize("name", DEFAULT_BYTES)
def test_every_cache_is_documented(name):
    """With its variable and its limit, here and among all variables."""
    variable = f"`PACKSTONE_{name.upper()}_CACHE`"
    assert f"| {variable} | {format_bytes(DEFAULT_BYTES[name]).replace('.0 ', ' ')} |" in PAGE
    assert variable in (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("kind", [Scan, Column])
def test_every_method_is_documented(kind):
    """Every public method of a scan and of `col` is on the page."""
    for name in vars(kind):
        if not name.startswith("_") and callable(getattr(kind, name)):
            assert f".{name}(" in PAGE, name


def _mechanisms():
    """The rows of the table of CarbonData's mechanisms: what is there, what is here, the modules, the tests."""
    section = PAGE.split("### As CarbonData describes it")[1].split("\n## ")[0]
    rows = [line.strip("| ").split(" | ") for line in section.splitlines() if line.startswith("| ")]
    return [tuple(row) for row in rows[1:]]


@pytest.mark.parametrize("row", _mechanisms(), ids=lambda row: row[0])
def test_every_mechanism_of_carbondata_is_where_the_table_says(row):
    """Its modules and tests exist, a module holds the names that the table gives, and a test uses the package."""
    _, here, modules, tests = row
    found = [ROOT / "src" / "packstone" / path for path in re.findall(r"`([^`]+)`", modules)]
    shown = [ROOT / "tests" / path for path in re.findall(r"`([^`]+)`", tests)]
    assert found
    assert shown
    assert [str(path) for path in (*found, *shown) if not path.is_file()] == []
    code = "".join(path.read_text(encoding="utf-8") for path in found)
    names = [name.rpartition(".")[2] for name in re.findall(r"`([^`]+)`", here)]
    assert [name for name in names if not re.search(rf"\b{name}\b", code)] == []
    assert all(re.search(r"def test_", path.read_text(encoding="utf-8")) for path in shown)


def test_statements():
    """What DuckDB may hold in memory."""
    assert MEMORY_LIMIT.replace("GB", " GB") in PAGE
