"""What the names of files tell of their writers: names that mean something must not vanish, or not be mixed.

================  ==============================================  ====================================================
Kafka Connect     ``topic+3+0000000100+0000000199.avro``          it finds its place in the topic by the highest
                                                                  offset in the names; that file stays (hazard 13)
Spark's buckets   ``part-00000-<uuid>_00003.c000.snappy.parquet``  the number is the bucket; joins that rely on it would
                                                                  lose rows, so the folder is refused (hazard 7)
================  ==============================================  ====================================================
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

_KAFKA: Final = re.compile(r"^(?P<topic>.+)\+(?P<partition>\d+)\+\d+\+(?P<end>\d+)(\.[\w.]+)?$")
_SPARK_BUCKET: Final = re.compile(r"^part-\d{5,}-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}_\d{5}\.c\d{3}\b")


def newest_offsets(names: Iterable[str]) -> frozenset[str]:
    """The files of Kafka Connect that hold the highest offset of their topic and partition in this folder.

    The highest of the whole topic is one of them, whatever folders there are; the others cost a file each.
    """
    newest: dict[tuple[str, int], tuple[int, str]] = {}
    for name in names:
        found = _KAFKA.match(name)
        if found is None:
            continue
        place, offset = (found["topic"], int(found["partition"])), (int(found["end"]), name)
        newest[place] = max(offset, newest.get(place, offset))
    return frozenset(name for _, name in newest.values())


def bucket_name(names: Iterable[str]) -> str | None:
    """A name in which Spark tells a bucket, if there is one."""
    return next((name for name in names if _SPARK_BUCKET.match(name)), None)
