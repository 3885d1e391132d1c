"""Where Spark 4 looks for ``format("packstone")``: a top-level module ``pyspark_*`` with a ``DefaultSource``."""

from packstone.spark.data_source import PackstoneSource


class DefaultSource(PackstoneSource):
    """A segment table or a Paimon table at one version."""


__all__ = ["DefaultSource"]
