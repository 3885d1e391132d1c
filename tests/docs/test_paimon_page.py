"""The page on Paimon tables leaves nothing out."""

from pathlib import Path

import pytest

from packstone.cli.commands.clean import command as clean
from packstone.cli.commands.compact import command as compact
from packstone.cli.family import PAIMON_ONLY
from packstone.model.paimon_options import PaimonStrategy
from packstone.rewrite.merge.merge_spec import MergeEngine
from packstone.tables.paimon.refusals import _SWITCHES, AGGREGATORS

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "paimon.md").read_text(encoding="utf-8")
OPTIONS = [
    parameter.opts[0] for command in (compact, clean) for parameter in command.params if parameter.name in PAIMON_ONLY
]


@pytest.mark.parametrize("word", [*OPTIONS, "--where", "--verify", "--older-than"])
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
