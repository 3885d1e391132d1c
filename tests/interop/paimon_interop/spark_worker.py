"""Paimon's Spark connector behind JSON lines: SQL in, rows out. Run with the Python of the Spark 3.5 environment.

The connector is that of Paimon 0.9, the newest that Maven has for Spark 3.5: readers and writers of that age are in the
field. The first argument is its jar, the second the warehouse, which is the catalog ``paimon``.
"""

import contextlib
import json
import os
import sys
import traceback
from typing import Any

from pyspark.sql import SparkSession

from paimon_interop.rows import plain


def session(jar: str, warehouse: str) -> SparkSession:
    """Spark with the connector."""
    os.environ |= {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    settings = {
        "spark.jars": jar,
        "spark.sql.catalog.paimon": "org.apache.paimon.spark.SparkCatalog",
        "spark.sql.catalog.paimon.warehouse": warehouse,
        "spark.sql.extensions": "org.apache.paimon.spark.extensions.PaimonSparkSessionExtensions",
        "spark.sql.shuffle.partitions": "2",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    }
    builder = SparkSession.builder.master("local[2]")
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def answer(spark: SparkSession, request: dict[str, Any]) -> Any:
    """Run ``statement``; rows come in the form of ``rows.py``."""
    found = spark.sql(request["statement"])
    rows = [[plain(value) for value in row] for row in found.collect()]
    return {"columns": found.columns, "rows": rows}


def main() -> None:
    """Answer requests until stdin ends; whatever Spark prints goes to stderr."""
    answers = sys.stdout
    with contextlib.redirect_stdout(sys.stderr):
        spark = session(*sys.argv[1:3])
        for line in sys.stdin:
            try:
                reply = {"ok": answer(spark, json.loads(line))}
            except Exception as error:  # noqa: BLE001 - the caller decides
                reply = {"error": str(error)[:500], "kind": type(error).__name__, "trace": traceback.format_exc()}
            answers.write(json.dumps(reply) + "\n")
            answers.flush()
        spark.stop()


if __name__ == "__main__":
    main()
