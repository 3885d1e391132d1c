"""A PyArrow whose Parquet decoder aborts on one file, in every process that gets this environment.

The checks before PyArrow catch every abort that the fuzzers found, so a file that really aborts it is not to be had;
what follows an abort must also work for a file that they do not know. The file is known by its number of rows,
also among the row groups of several files that are decoded as one.
"""

import os
from pathlib import Path

DEADLY_ROWS = 77
_HOOK = f"""
import os
import sys
import pyarrow.parquet as pq



def aborting(read):
    def read_or_abort(self, *arguments, **options):
        groups = [self.metadata.row_group(at).num_rows for at in range(self.metadata.num_row_groups)]
        if {DEADLY_ROWS} in (self.metadata.num_rows, *groups):
            os.abort()
        return read(self, *arguments, **options)

    return read_or_abort


pq.ParquetFile.iter_batches = aborting(pq.ParquetFile.iter_batches)
pq.ParquetFile.read = aborting(pq.ParquetFile.read)
"""


def aborting_env(env, folder: Path, *, more: str = ""):
    """The environment with that PyArrow; ``more`` is run in every process too."""
    folder.mkdir(exist_ok=True)
    (folder / "sitecustomize.py").write_text(_HOOK + more)
    path = os.pathsep.join(part for part in (str(folder), env.get("PYTHONPATH", "")) if part)
    return {**env, "PYTHONPATH": path}
