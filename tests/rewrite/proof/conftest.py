import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))  # for merge_model: tests are imported by path, not as packages
