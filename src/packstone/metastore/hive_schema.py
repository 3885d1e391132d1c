"""The tables of a Hive metastore's database, as far as they are read: Hive makes them, nobody else writes to them.

Names are upper-case everywhere, and quoted: PostgreSQL would fold them otherwise. The columns named here are those that
all versions of Hive from 1.2 to 4 have.
"""

from __future__ import annotations

from typing import Final

from sqlalchemy import BigInteger, Column, MetaData, String, Table
from sqlalchemy.sql import quoted_name

_METADATA: Final = MetaData()
_NUMBERS: Final = frozenset(
    {"DB_ID", "TBL_ID", "SD_ID", "SERDE_ID", "PART_ID", "CD_ID", "INTEGER_IDX", "NUM_BUCKETS", "STRING_LIST_ID"}
)


def _table(name: str, *columns: str) -> Table:
    return Table(
        quoted_name(name, quote=True),
        _METADATA,
        *(
            Column(quoted_name(one, quote=True), BigInteger if one in _NUMBERS else String, key=one.lower())
            for one in columns
        ),
    )


DBS: Final = _table("DBS", "DB_ID", "NAME")
TBLS: Final = _table("TBLS", "TBL_ID", "DB_ID", "SD_ID", "TBL_NAME", "TBL_TYPE")
TABLE_PARAMS: Final = _table("TABLE_PARAMS", "TBL_ID", "PARAM_KEY", "PARAM_VALUE")
PARTITIONS: Final = _table("PARTITIONS", "PART_ID", "TBL_ID", "SD_ID", "PART_NAME")
PARTITION_KEYS: Final = _table("PARTITION_KEYS", "TBL_ID", "PKEY_NAME", "INTEGER_IDX")
PARTITION_PARAMS: Final = _table("PARTITION_PARAMS", "PART_ID", "PARAM_KEY", "PARAM_VALUE")
SDS: Final = _table("SDS", "SD_ID", "SERDE_ID", "LOCATION", "INPUT_FORMAT", "NUM_BUCKETS")
SERDES: Final = _table("SERDES", "SERDE_ID", "SLIB")
SERDE_PARAMS: Final = _table("SERDE_PARAMS", "SERDE_ID", "PARAM_KEY", "PARAM_VALUE")
BUCKETING_COLS: Final = _table("BUCKETING_COLS", "SD_ID", "BUCKET_COL_NAME", "INTEGER_IDX")
SORT_COLS: Final = _table("SORT_COLS", "SD_ID", "COLUMN_NAME", "INTEGER_IDX")
SKEWED_COL_NAMES: Final = _table("SKEWED_COL_NAMES", "SD_ID", "SKEWED_COL_NAME", "INTEGER_IDX")
