"""Let tests here import what they share from tests/: they are imported by path, not as packages."""

import sys
from pathlib import Path

TESTS = Path(__file__).parents[1]
sys.path[:0] = [str(TESTS), str(TESTS / "interop")]
