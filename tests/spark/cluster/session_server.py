"""A driver with one Spark session on a cluster, which compacts one table after the other; each line in is a call.

Run as: python session_server.py SETTINGS.    Lines in: {"path": …, "parallel": n}; lines out: how it ended.
"""

import json
import sys

import packstone
from packstone import Budget, HiveOptions
from packstone.errors import PackstoneError


def say(**answer: object) -> None:
    """Write an answer, at once."""
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()


def main() -> None:
    """Make the session; answer until the input ends."""
    from pyspark.sql import SparkSession

    builder = SparkSession.builder
    for key, value in json.loads(sys.argv[1]).items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    say(ready=True)
    for line in sys.stdin:
        asked = json.loads(line)
        table = packstone.open(asked["path"], spark=spark)
        try:
            outcome = table.compact(HiveOptions(min_files=2), budget=Budget(parallel=asked["parallel"]))
        except PackstoneError as error:
            say(error=error.message)
        else:
            say(status=outcome.status, files_after=outcome.files_after)
    spark.stop()


main()
