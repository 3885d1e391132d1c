"""The first word to an HDFS: soon and plain, where every later one is patient.

In the middle of a run a NameNode that is away is waited for, for minutes: it may be starting again. At the start the
likely cause is a wrong address, so a driver asks once, with few tries, before it uses a store. Workers do not: they
may start while the NameNode does.
"""

from __future__ import annotations

import functools
import os
import re
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from packstone.errors import InvalidInputError, UnavailableError
from packstone.storage.hdfs_kerberos import client_url, refusal

if TYPE_CHECKING:
    from packstone.storage.hdfs_settings import HdfsSettings

_OS_NUMBER: Final = re.compile(r" \(os error \d+\)$")
_AUTHENTICATION: Final = "hadoop.security.authentication"
FEW_TRIES: Final = {
    "dfs.client.failover.max.attempts": "3",
    "dfs.client.failover.sleep.base.millis": "200",
    "dfs.client.failover.sleep.max.millis": "1000",
}


def hasty(settings: HdfsSettings) -> HdfsSettings:
    """The same HDFS, asked with few tries."""
    return replace(settings, client=tuple(sorted({**dict(settings.client), **FEW_TRIES}.items())))


@functools.cache
def check_answers(settings: HdfsSettings) -> None:
    """Say in one sentence that nobody answers there, or that the address cannot be one; asked once a process."""
    try:
        from hdfs_native import Client  # noqa: PLC0415 - an extra
    except ImportError:
        raise InvalidInputError("hdfs: paths need hdfs-native; install it with: pip install hdfs-native") from None
    settings.act_as_user()
    url = settings.url
    try:
        Client(client_url(url, os.environ), dict(hasty(settings).client)).get_file_info("/")
    except OSError as error:
        reason = _OS_NUMBER.sub("", str(error).partition("\n")[0].rstrip("."))
        raise UnavailableError(
            f"No NameNode answers at {url} ({reason}); check host and port, and that HDFS runs"
            f"{_kerberos_hint(settings, reason)}.",
            url=url,
        ) from error
    except (RuntimeError, ValueError) as error:
        _check_credentials(url, error)
        _check_address(url, str(error), error)


def _check_credentials(url: str, cause: Exception) -> None:
    """Raise if the NameNode answers, but not to the credentials of this process."""
    why = refusal(str(cause), url, os.environ)
    if why is not None:
        raise UnavailableError(f"{url} cannot be used: {why}.", url=url) from cause


def _kerberos_hint(settings: HdfsSettings, reason: str) -> str:
    """What else may be wrong: a NameNode that requires Kerberos hangs up on a client that does not offer it."""
    if "disconnected" not in reason or dict(settings.client).get(_AUTHENTICATION, "simple") != "simple":
        return ""
    return f"; if it requires Kerberos, set HADOOP_CONF_DIR to a folder with {_AUTHENTICATION} in its core-site.xml"


def _check_address(url: str, text: str, cause: Exception) -> None:
    """Raise for what is wrong with the address; all else shows when the store is used, and may pass until then."""
    if "No NameNode hosts found" in text:
        raise InvalidInputError(
            f"{url} names no port, and the Hadoop configuration knows no name service of that name; write "
            f"hdfs://HOST:PORT/PATH, or set HADOOP_CONF_DIR to the folder of hdfs-site.xml.",
            url=url,
        ) from cause
    if "UrlParseError" in text:
        raise InvalidInputError(f"{url} is no address of an HDFS; write hdfs://HOST:PORT/PATH.", url=url) from cause
