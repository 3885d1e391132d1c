"""Where an HDFS is and how to reach it: from the Hadoop configuration, as every Hadoop client reads it.

The files are read once, on the driver, and what a client needs of them travels with the ``HdfsFileIO`` to Spark's
workers, whose machines need no configuration of their own. Nothing secret is among it: tickets and tokens are found by
each process in its own environment (``KRB5CCNAME``, ``HADOOP_TOKEN_FILE_LOCATION``).
"""

from __future__ import annotations

import os
import pwd
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit
from xml.etree import ElementTree as ET

from packstone.errors import InvalidInputError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

SCHEME: Final = "hdfs"
_BLOCK_BYTES: Final = 128 << 20  # Hadoop's own default
_UNITS: Final = {"k": 1 << 10, "m": 1 << 20, "g": 1 << 30}
_FILES: Final = ("core-site.xml", "hdfs-site.xml")
_DEFAULT_FS: Final = "fs.defaultFS"
_USER: Final = "HADOOP_USER_NAME"
# What the library reads of the configuration: name services, security, and how it writes.
_TRAVELS: Final = ("dfs.", "hadoop.security.", "hadoop.rpc.", "fs.viewfs.", "ipc.client.", _DEFAULT_FS)


@dataclass(frozen=True, slots=True, kw_only=True)
class HdfsSettings:
    """One HDFS: ``hdfs://nn:9000`` or ``hdfs://nameservice``, and the client's settings."""

    url: str
    client: tuple[tuple[str, str], ...] = ()
    user: str = ""  # empty: the owner of the Kerberos ticket or token of each process

    @classmethod
    def from_environment(cls, address: str, environment: Mapping[str, str]) -> HdfsSettings:
        """Read the Hadoop configuration; ``hdfs:///path`` means its ``fs.defaultFS``."""
        found = read_configuration(environment)
        user = find_user(environment) if is_simple(found) else environment.get(_USER, "")
        return cls(url=_root_of(address, found), client=tuple(sorted(found.items())), user=user)

    def act_as_user(self) -> None:
        """Let this process act as the user whom the driver chose; the library reads that from the environment.

        Without Kerberos, the containers of YARN run as the NodeManager's user (``yarn`` or ``nobody``), not as the user
        who submitted the application. With Kerberos, the ticket or token decides.
        """
        acts_as = os.environ.get(_USER) or _os_user()
        if self.user and self.user != acts_as and is_simple(dict(self.client)):
            os.environ[_USER] = self.user


def is_simple(found: Mapping[str, str]) -> bool:
    """Whether the NameNode believes the user name that a client sends; False with Kerberos."""
    return found.get("hadoop.security.authentication", "simple").lower() == "simple"


def find_user(environment: Mapping[str, str]) -> str:
    """Return the user as Spark's JVM chooses it: on YARN the one who submitted, not the one who runs containers."""
    return environment.get(_USER) or environment.get("SPARK_USER") or _os_user()


def _os_user() -> str:
    """Return the user by number: LOGNAME and USER may still name the previous one after `su`."""
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:  # a container may run with a number that has no name
        return ""


def read_configuration(environment: Mapping[str, str]) -> dict[str, str]:
    """Read what a client needs of core-site.xml and hdfs-site.xml; empty where there is no configuration."""
    folder = environment.get("HADOOP_CONF_DIR", "")
    if not folder and environment.get("HADOOP_HOME"):
        folder = f"{environment['HADOOP_HOME']}/etc/hadoop"
    paths = (f"{folder}/{name}" for name in _FILES if folder)
    return {name: value for path in paths if os.path.exists(path) for name, value in _properties(path)}


def block_bytes_of(settings: Mapping[str, str]) -> int:
    """The configured size of blocks, ``dfs.blocksize``: a number of bytes, or one with a letter (``256m``)."""
    text = settings.get("dfs.blocksize", "").lower()
    number, unit = (text[:-1], _UNITS.get(text[-1:], 1)) if text[-1:].isalpha() else (text, 1)
    return int(number) * unit if number.isdigit() else _BLOCK_BYTES


def _properties(path: str) -> Iterator[tuple[str, str]]:
    try:
        root = ET.parse(path).getroot()  # noqa: S314 - the machine's own configuration
    except ET.ParseError as error:
        raise InvalidInputError(f"The Hadoop configuration {path} is no XML ({error}); mend it.", file=path) from error
    for prop in root.iter("property"):
        name, value = (prop.findtext("name") or "").strip(), (prop.findtext("value") or "").strip()
        if name.startswith(_TRAVELS):
            yield name, value


def _root_of(address: str, found: Mapping[str, str]) -> str:
    parts = urlsplit(address)
    if parts.scheme.lower() != SCHEME:
        raise InvalidInputError(f"{address} is no hdfs: address; give one such as hdfs://namenode:8020/data.")
    if parts.netloc:
        return f"{SCHEME}://{parts.netloc}"
    default = urlsplit(found.get(_DEFAULT_FS, ""))
    if default.scheme != SCHEME or not default.netloc:
        raise InvalidInputError(
            f"{address} names no NameNode, and there is no fs.defaultFS with one; set HADOOP_CONF_DIR to the folder of "
            f"core-site.xml, or give an address such as hdfs://namenode:8020/data."
        )
    return f"{SCHEME}://{default.netloc}"
