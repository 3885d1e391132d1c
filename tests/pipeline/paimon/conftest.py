"""Let tests of Paimon tables import what they share from tests/: they are imported by path, not as packages."""

import sys
from pathlib import Path

TESTS = Path(__file__).parents[2]
sys.path[:0] = [str(TESTS), str(TESTS / "interop")]  # the second for the readers and checks that are not the product's
