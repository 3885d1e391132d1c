"""Fixtures of the interop tests: workers with pypaimon, Packstone's command, the checks after every commit.

They run by ``make interop`` only, which makes the other environment; ``make test`` passes them by.
"""

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))  # for paimon_interop: tests are imported by path, not as packages

if not os.environ.get("PACKSTONE_INTEROP"):
    collect_ignore_glob = ["test_*.py"]
