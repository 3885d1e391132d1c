"""Metastores that Hive made, loaded from dumps: no Spark is needed to read them."""

import pytest
from metastore_lake import FilledMetastore


@pytest.fixture(scope="module", params=["mariadb", "postgres"])
def metastore(request, tmp_path_factory):
    """A metastore in each of the two databases."""
    return FilledMetastore(request.getfixturevalue(request.param), tmp_path_factory.mktemp(request.param))


@pytest.fixture
def by_name(packstone, metastore):
    """Run a command with this metastore."""

    def call(command: str, *arguments: object):
        return packstone(command, *arguments, "--metastore", metastore.url, "--format", "json")

    return call
