import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))  # for plain_model and make_runs: tests are imported by path
