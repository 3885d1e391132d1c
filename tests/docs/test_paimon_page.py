"""The page on Paimon tables leaves nothing out."""

from pathlib import Path

import pytest

from packstone.rewrite.merge_tree.spec import MergeEngine
from packstone.tables.paimon.family import PAIMON
from packstone.tables.paimon.options import PaimonOptions, PaimonStrategy
from packstone.tables.paimon.refusals import _SWITCHES, AGGREGATORS

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "paimon.md").read_text(encoding="utf-8")
OPTIONS = [
    *(f"--{name.replace('_', '-')}" for name in (*sorted(PAIMON.filters), *sorted(PAIMON.clean_arguments))),
    *(f"--set {one.key}=" for one in PaimonOptions.declared() if one.key != "verify"),
    *(one.key for one in PaimonOptions.table_options()),
]


@pytest.mark.parametrize("word", [*OPTIONS, "--set", "--verify"])
def test_every_option_is_documented(word):
    """Every option for Paimon tables is on the page."""
    assert f"`{word}" in PAGE


@pytest.mark.parametrize("word", [*sorted(AGGREGATORS), *MergeEngine, *PaimonStrategy])
def test_all_that_is_supported_is_documented(word):
    """Every merge engine, aggregator and strategy is on the page."""
    assert word in PAGE


@pytest.mark.parametrize("word", [*_SWITCHES, "changelog-producer", "data-file.external-paths", "VARIANT"])
def test_all_that_is_refused_is_documented(word):
    """Every option for which a table is refused is on the page."""
    assert word in PAGE
