"""Let tests of pruning import the blocklets by hand from tests/: they are imported by path, not as packages."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
