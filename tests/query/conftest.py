"""Let tests of pruning import the blocklets by hand from tests/: they are imported by path, not as packages."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))


@pytest.fixture(autouse=True)
def small_groups_pay(monkeypatch):
    """Row groups are small in tests: here dictionaries are read and tested for them too, however little that saves."""
    monkeypatch.setattr("packstone.query.scan.dictionaries._TEST_US", -1e9)
    monkeypatch.setattr("packstone.query.scan.dictionaries._WORTH", 0)
    monkeypatch.setattr("packstone.query.scan.dictionaries._LEAST_EXCLUDED", 1 << 20)
