"""Let tests of segment tables import what they share from tests/: they are imported by path, not as packages."""

import sys
from pathlib import Path

TESTS = Path(__file__).parents[2]
sys.path[:0] = [str(TESTS)]
