"""The tasks of a new family (tests/jsonl_family) on Spark: workers find its code as they find any package."""

import json
import subprocess
import sys
from pathlib import Path

from jsonl_lake import JsonlLake
from patience import patient

TESTS = Path(__file__).parents[1]


def test_compacted_and_verified_on_spark(spark_env, tmp_path):
    """A compaction on local Spark keeps every row; its proof is repeated there."""
    lake = JsonlLake(tmp_path / "lake").append("dt=1", files=3).append("dt=2", files=2)
    ids, env = lake.ids(), {**spark_env, "PYTHONPATH": f"{TESTS}:{spark_env.get('PYTHONPATH', '')}"}

    def call(*arguments):
        command = [sys.executable, TESTS / "with_jsonl.py", *arguments, "--engine", "local[2]"]
        done = subprocess.run(
            [*command, "--format", "json"], env=env, capture_output=True, text=True, check=False, timeout=patient(300)
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    outcome = call("compact", str(lake.table))
    assert (outcome["status"], outcome["family"], len(lake.live()), lake.ids()) == ("committed", "jsonl", 2, ids)
    assert call("verify", outcome["run"], str(lake.table))["status"] == "verified"
