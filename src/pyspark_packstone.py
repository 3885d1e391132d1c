"""Where Spark 4 looks for ``format("packstone")``: a top-level module ``pyspark_*`` with a ``DefaultSource``."""

from typing import TYPE_CHECKING

from packstone.spark.data_source import PackstoneSource

if TYPE_CHECKING:
    from packstone.model.outcome import Outcome
    from packstone.runs.engine import Engine


def merge_loaded(path: str, engine: "Engine") -> "Outcome":
    """Merge what is worth merging after a load, and record it, as after any other load."""
    from packstone.pipeline.record import history_address  # in Spark's driver only
    from packstone.pipeline.table import Table

    return Table(path, history=history_address()).merge_loaded(engine)


class DefaultSource(PackstoneSource):
    """A segment table or a Paimon table at one version; writes go to segment tables."""

    merge_after = staticmethod(merge_loaded)


__all__ = ["DefaultSource"]
