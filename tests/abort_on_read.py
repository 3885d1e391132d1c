"""A PyArrow whose Parquet decoder aborts on one file, in every process that gets this environment.

The checks before PyArrow catch every abort that the fuzzers found, so a file that really aborts it is not to be had;
what follows an abort must work all the same for the one that they do not know. The file is known by its number of rows.
"""

import os
from pathlib import Path

DEADLY_ROWS = 77
_HOOK = f"""
import os
import sys
import pyarrow.parquet as pq

_iter_batches = pq.ParquetFile.iter_batches


def iter_batches(self, *arguments, **options):
    if self.metadata.num_rows == {DEADLY_ROWS}:
        os.abort()
    return _iter_batches(self, *arguments, **options)


pq.ParquetFile.iter_batches = iter_batches
"""


def aborting_env(env, folder: Path, *, more: str = ""):
    """The environment with that PyArrow; ``more`` is run in every process too."""
    folder.mkdir(exist_ok=True)
    (folder / "sitecustomize.py").write_text(_HOOK + more)
    path = os.pathsep.join(part for part in (str(folder), env.get("PYTHONPATH", "")) if part)
    return {**env, "PYTHONPATH": path}
