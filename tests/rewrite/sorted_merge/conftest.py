import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))  # for make_ordered: tests are imported by path
