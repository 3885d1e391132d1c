"""Let tests of segment tables import what they share from tests/: they are imported by path, not as packages."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
