"""Runs that publish by location, with a catalogue in one file; ``fork_server.py`` runs them in own processes.

The catalogue is changed by one step of the store, as a metastore by one call, so a matrix of kills has it too.
"""

import json

from packstone.model.files import FileFormat
from packstone.model.metastore import FolderFacts
from packstone.pipeline.table import Table
from packstone.storage.local import LocalFileIO
from packstone.storage.location import parse_location
from packstone.tables.hive.layout import parse_partition
from packstone.tables.hive.listing import NamedFolder
from packstone.tables.hive.options import HiveOptions
from packstone.tables.hive.relocate import LocationPublish

TABLE = "sales.orders"


class FileCatalog:
    """Where each partition is, and its numbers, in one file."""

    def __init__(self, io, path) -> None:
        self._io, self._path = io, path

    def read(self):
        """Everything."""
        return json.loads(self._io.read_bytes(self._path))

    def read_location(self, table, partition):
        """Where a partition is."""
        assert table == TABLE
        return self.read().get(partition, {}).get("location")

    def set_location(self, table, partition, *, location, numbers):
        """Change it in one step."""
        assert table == TABLE
        self._io.replace(self._path, json.dumps(self.read() | {partition: {"location": location, **numbers}}).encode())


def catalog_of(path, io=None):
    """The catalogue of a table."""
    return FileCatalog(io or LocalFileIO(), f"{path}.catalog")


def open_published(path, io=None, *, catalog=None, engine=None):
    """A table whose partitions are published by their location."""
    io = io or LocalFileIO()
    known = catalog_of(path, io)
    catalog = catalog or known

    def folders():
        for partition, facts in sorted(known.read().items()):
            told = FolderFacts(name=partition, file_format=FileFormat.PARQUET, values=parse_partition(partition))
            yield NamedFolder(partition=partition, directory=parse_location(facts["location"]).path, facts=told)

    made = None if engine is None else lambda: engine
    named = {"folders": folders, "publish": LocationPublish(table=TABLE, catalog=catalog)}
    return Table(path, io=io, engine=made, named=named)


def location_compact(io, path, **options):
    """Merge and publish by location; say how it ended."""
    return open_published(path, io).compact(HiveOptions(**options)).to_json()


def location_restore(io, path, run):
    """Undo a run."""
    return open_published(path, io).restore(run).to_json()


def location_clean(io, path):
    """Remove old folders."""
    return open_published(path, io).clean().to_json()


def location_recover(io, path):
    """Repair what the dead left."""
    return open_published(path, io).recover().to_json()
