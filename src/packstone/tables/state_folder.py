"""Where Packstone keeps its own files of a table: beside it, not in it.

DuckDB and Polars read hidden folders below a table, so what belongs to ``<parent>/orders`` lives in
``<parent>/.packstone/orders``. Only if that is another store (a rename would not work) or we may not write there, it
lives in the table's root.
"""

from __future__ import annotations

import posixpath
from typing import TYPE_CHECKING, Final

from packstone.storage.location import is_store_root

if TYPE_CHECKING:
    from packstone.storage.fileio import FileIO

STATE_FOLDER: Final = ".packstone"


def find_state_folder(io: FileIO, root: str) -> str:
    """Name the folder of our own files of the table with this root."""
    parent, name = posixpath.split(root)
    if is_store_root(root):
        return f"{root.rstrip('/')}/{STATE_FOLDER}/root"
    inside = f"{root}/{STATE_FOLDER}/{name}"
    if io.store_id(parent) != io.store_id(root):
        return inside
    beside = f"{parent.rstrip('/')}/{STATE_FOLDER}/{name}"
    if io.stat(beside) is not None:
        return beside
    # Whoever came first decides for all users: two state folders would be two owners of one partition.
    if io.stat(inside) is not None or not io.may_write(parent):
        return inside
    return beside
