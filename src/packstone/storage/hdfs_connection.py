"""Connect to an HDFS: its settings, a quick first check, its errors as OSErrors, and Kerberos.

During a run a call waits for an unavailable NameNode for minutes: it may be restarting. At the start the likely cause
is a wrong address, so a driver checks once, with few retries, before it uses a store. Workers do not check: they may
start while the NameNode restarts.

The settings come from the Hadoop configuration, as for every Hadoop client. The files are read once, on the driver, and
the needed settings are sent with the ``HdfsFileIO`` to Spark's workers, whose machines need no configuration of their
own. They contain no secrets: each process finds tickets and tokens in its own environment (``KRB5CCNAME``,
``HADOOP_TOKEN_FILE_LOCATION``).
"""

from __future__ import annotations

import errno
import functools
import os
import pwd
import re
import socket
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit
from xml.etree import ElementTree as ET

from packstone.errors import InvalidInputError, UnavailableError
from packstone.storage.location import split_store

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_OS_NUMBER: Final = re.compile(r" \(os error \d+\)$")
_AUTHENTICATION: Final = "hadoop.security.authentication"
FEW_TRIES: Final = {
    "dfs.client.failover.max.attempts": "3",
    "dfs.client.failover.sleep.base.millis": "200",
    "dfs.client.failover.sleep.max.millis": "1000",
}


def with_few_retries(settings: HdfsSettings) -> HdfsSettings:
    """Return the same settings with few retries."""
    return replace(settings, client=tuple(sorted({**dict(settings.client), **FEW_TRIES}.items())))


@functools.cache
def check_answers(settings: HdfsSettings) -> None:
    """Raise a one-sentence error if no NameNode answers, or if the address is invalid; checks once in a process."""
    try:
        from hdfs_native import Client  # an extra
    except ImportError:
        raise InvalidInputError("hdfs: paths need hdfs-native; install it with: pip install hdfs-native") from None
    settings.act_as_user()
    url = settings.url
    try:
        Client(client_url(url, os.environ), dict(with_few_retries(settings).client)).get_file_info("/")
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
    """Raise if the NameNode answers but rejects the credentials of this process."""
    why = refusal(str(cause), url, os.environ)
    if why is not None:
        raise UnavailableError(f"{url} cannot be used: {why}.", url=url) from cause


def _kerberos_hint(settings: HdfsSettings, reason: str) -> str:
    """Another possible cause: a NameNode that requires Kerberos disconnects a client that does not offer it."""
    if "disconnected" not in reason or dict(settings.client).get(_AUTHENTICATION, "simple") != "simple":
        return ""
    return f"; if it requires Kerberos, set HADOOP_CONF_DIR to a folder with {_AUTHENTICATION} in its core-site.xml"


def _check_address(url: str, text: str, cause: Exception) -> None:
    """Raise if the address is invalid; other errors appear when the store is used, and may be gone by then."""
    if "No NameNode hosts found" in text:
        raise InvalidInputError(
            f"{url} names no port, and the Hadoop configuration has no name service of that name; write "
            f"hdfs://HOST:PORT/PATH, or set HADOOP_CONF_DIR to the folder of hdfs-site.xml.",
            url=url,
        ) from cause
    if "UrlParseError" in text:
        raise InvalidInputError(f"{url} is not an HDFS address; write hdfs://HOST:PORT/PATH.", url=url) from cause


# ---- settings ----


SCHEME: Final = "hdfs"
_BLOCK_BYTES: Final = 128 << 20  # Hadoop's own default
_UNITS: Final = {"k": 1 << 10, "m": 1 << 20, "g": 1 << 30}
_FILES: Final = ("core-site.xml", "hdfs-site.xml")
_DEFAULT_FS: Final = "fs.defaultFS"
_USER: Final = "HADOOP_USER_NAME"
# The settings that the library reads: name services, security, and how it writes.
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
        """Make this process act as the user whom the driver chose; the library reads it from the environment.

        Without Kerberos, the containers of YARN run as the NodeManager's user (``yarn`` or ``nobody``), not as the user
        who submitted the application. With Kerberos, the ticket or token decides.
        """
        acts_as = os.environ.get(_USER) or _os_user()
        if self.user and self.user != acts_as and is_simple(dict(self.client)):
            os.environ[_USER] = self.user


def is_simple(found: Mapping[str, str]) -> bool:
    """Whether the NameNode trusts the user name that a client sends; False with Kerberos."""
    return found.get("hadoop.security.authentication", "simple").lower() == "simple"


def find_user(environment: Mapping[str, str]) -> str:
    """Return the user as Spark's JVM chooses it: on YARN the one who submitted, not the one of the containers."""
    return environment.get(_USER) or environment.get("SPARK_USER") or _os_user()


def _os_user() -> str:
    """Return the user by number: LOGNAME and USER may still name the previous one after `su`."""
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:  # a container may run with a user id that has no name
        return ""


def read_configuration(environment: Mapping[str, str]) -> dict[str, str]:
    """Read what a client needs from core-site.xml and hdfs-site.xml; empty if there is no configuration."""
    folder = environment.get("HADOOP_CONF_DIR", "")
    if not folder and environment.get("HADOOP_HOME"):
        folder = f"{environment['HADOOP_HOME']}/etc/hadoop"
    paths = (f"{folder}/{name}" for name in _FILES if folder)
    return {name: value for path in paths if os.path.exists(path) for name, value in _properties(path)}


def block_bytes_of(settings: Mapping[str, str]) -> int:
    """The configured block size, ``dfs.blocksize``: a number of bytes, or a number with a unit (``256m``)."""
    text = settings.get("dfs.blocksize", "").lower()
    number, unit = (text[:-1], _UNITS.get(text[-1:], 1)) if text[-1:].isalpha() else (text, 1)
    return int(number) * unit if number.isdigit() else _BLOCK_BYTES


def _properties(path: str) -> Iterator[tuple[str, str]]:
    try:
        root = ET.parse(path).getroot()  # noqa: S314 - the machine's own configuration
    except ET.ParseError as error:
        what = f"The Hadoop configuration {path} is not valid XML ({error}); correct it."
        raise InvalidInputError(what, file=path) from error
    for prop in root.iter("property"):
        name, value = (prop.findtext("name") or "").strip(), (prop.findtext("value") or "").strip()
        if name.startswith(_TRAVELS):
            yield name, value


def _root_of(address: str, found: Mapping[str, str]) -> str:
    parts = urlsplit(address)
    if parts.scheme.lower() != SCHEME:
        raise InvalidInputError(f"{address} is not an hdfs: address; give one such as hdfs://namenode:8020/data.")
    if parts.netloc:
        return f"{SCHEME}://{parts.netloc}"
    default = urlsplit(found.get(_DEFAULT_FS, ""))
    if default.scheme != SCHEME or not default.netloc:
        raise InvalidInputError(
            f"{address} names no NameNode, and no fs.defaultFS names one; set HADOOP_CONF_DIR to the folder of "
            f"core-site.xml, or give an address such as hdfs://namenode:8020/data."
        )
    return f"{SCHEME}://{default.netloc}"


# ---- errors ----
# The library passes on the response of the NameNode: the name of a Java class, a sentence, and a Java stack trace. The
# OSError has the sentence; the stack trace stays in the cause.


_ANSWER: Final = re.compile(r'^(?:Fatal)?RPCError\("([\w.$]+)", "(.*)"\)$', re.DOTALL)
_DATANODES: Final = "DataTransferError("  # how the library reports that all DataNodes of a block failed
# How the library and the system report that a connection broke while a response was awaited.
_BROKEN: Final = re.compile(r"disconnected|reset|aborted|broken pipe|not connected|\beof\b|end of file", re.IGNORECASE)
_NUMBERS: Final = {
    "ParentNotDirectoryException": errno.ENOTDIR,
    "PathIsNotDirectoryException": errno.ENOTDIR,
    "PathIsNotEmptyDirectoryException": errno.ENOTEMPTY,
    "NSQuotaExceededException": errno.EDQUOT,
    "DSQuotaExceededException": errno.EDQUOT,
    "QuotaByStorageTypeExceededException": errno.EDQUOT,
    "SafeModeException": errno.EAGAIN,
    "RetriableException": errno.EAGAIN,
}


class BrokenConnectionError(TimeoutError):
    """A connection broke while a response was awaited: the request may have been carried out."""


class DataNodesError(OSError):
    """The DataNodes of a block failed while it was read or written; the NameNode may know others by now."""


@contextmanager
def as_os_errors(path: str) -> Iterator[None]:
    """Raise errors of ``hdfs-native`` as OSErrors with a number, one line of text and the path."""
    try:
        yield
    except FileNotFoundError as error:
        raise FileNotFoundError(errno.ENOENT, "No such file or directory", path) from error
    except FileExistsError as error:
        raise FileExistsError(errno.EEXIST, "File exists", path) from error
    except IsADirectoryError as error:
        raise IsADirectoryError(errno.EISDIR, "Is a directory", path) from error
    except OSError as error:
        if error.filename is not None:  # ours already
            raise
        # Always a TimeoutError, whether nothing listens or the connection broke.
        said = _first_line(error)
        kind = BrokenConnectionError if _BROKEN.search(said) else TimeoutError
        raise kind(errno.ETIMEDOUT, f"HDFS does not answer: {said}", path) from error
    except RuntimeError as error:
        raise _answer(str(error), path) from error


def _answer(text: str, path: str) -> OSError:
    """Return the OSError, with its number, for a response of the NameNode."""
    answer = _ANSWER.match(text)
    if (why := refusal(text, split_store(path)[0], os.environ)) is not None:
        return OSError(errno.ENOKEY, why, path)  # not EACCES, after which a folder or a file would be skipped
    if text.startswith(_DATANODES):
        return DataNodesError(errno.EIO, f"HDFS said: {text.partition(chr(10))[0]}", path)
    if answer is None:
        return OSError(errno.EIO, f"HDFS said: {text.partition(chr(10))[0]}", path)
    kind, said = answer.group(1).rpartition(".")[2], _said(answer.group(2))
    if kind == "StandbyException":  # the library has tried all of them, with all retries
        return TimeoutError(errno.ETIMEDOUT, "HDFS does not answer: none of its NameNodes is active", path)
    if kind == "AccessControlException":
        is_below_a_file = said.endswith("(is not a directory)")
        number = errno.ENOTDIR if is_below_a_file else errno.EACCES
    else:
        number = _NUMBERS.get(kind, errno.EIO)
    return OSError(number, f"HDFS said: {said}", path)  # of the subclass that the number has


def _said(text: str) -> str:
    return text.partition("\\n")[0].strip().rstrip(".")


def _first_line(error: OSError) -> str:
    return str(error).partition("\n")[0]


# ---- Kerberos: where the library finds credentials, and what to do if it finds none ----
#
# ``hdfs-native`` takes a delegation token from the file that ``HADOOP_TOKEN_FILE_LOCATION`` names, as executors on
# YARN have it, or else the ticket of ``kinit``. It chooses the token whose service equals the address it was given.
# Hadoop writes the NameNode's IP address into the service (``hadoop.security.token.service.use_ip``), so a client of
# ``hdfs://namenode:8020`` finds its token only if it is given the IP address. The token of a name service has the
# service ``ha-hdfs:NAME``, which the library looks for itself.


TOKEN_FILE: Final = "HADOOP_TOKEN_FILE_LOCATION"  # noqa: S105 - the name of a variable
_MAGIC: Final = b"HDTS"
_TICKET: Final = re.compile(r'^GSSAPIError\(.*routine_error: "(\w+)".*, \d+, "(.*)"\)$', re.DOTALL)
_TOKEN: Final = re.compile(r'^(?:Fatal)?RPCError\("[\w.$]*(?:SaslException|InvalidToken)", "(.*)"\)$', re.DOTALL)
_SHORT_BYTES: Final = 127
_MISSING: Final = ("GSS_S_NO_CRED", "GSS_S_CREDENTIALS_EXPIRED")
_EXPIRED: Final = "expired"
_NO_LIBRARY: Final = "Failed to load libgssapi"


def client_url(url: str, environment: Mapping[str, str]) -> str:
    """The address to open a client with: the one for which there is a delegation token, else ``url`` itself."""
    tokens = _read_tokens(environment)
    if not tokens or _port(url) is None:
        return url
    return next((f"hdfs://{service}" for service in _services(url) if _has_token(tokens, service)), url)


def refusal(text: str, url: str, environment: Mapping[str, str]) -> str | None:
    """Explain an error of the library about credentials, without a full stop; None for any other error."""
    ticket, token = _TICKET.match(text), _TOKEN.match(text)
    if token is not None:
        file = environment.get(TOKEN_FILE)
        what = f"delegation token of {file}" if file else "Kerberos ticket"
        return f"the NameNode rejects the {what} ({_last_part(token.group(1))}); start again with a new one"
    if _NO_LIBRARY in text:
        return "Kerberos needs libgssapi_krb5; install libgssapi-krb5-2 (Debian, Ubuntu) or krb5-libs (Red Hat)"
    if ticket is None:
        return None
    kind, said = ticket.group(1), _last_part(ticket.group(2))
    if kind not in _MISSING and _EXPIRED not in said:
        return f"Kerberos fails: {said}; check the ticket (klist) and the configuration of Kerberos (krb5.conf)"
    if not environment.get(TOKEN_FILE):
        return f"no Kerberos ticket: run kinit; executors need a delegation token instead ({TOKEN_FILE}): {said}"
    return (
        f"no Kerberos ticket, and {_lack(url, environment)}; run kinit before the job is submitted, and name this HDFS "
        f"in spark.kerberos.access.hadoopFileSystems if it is not the default one"
    )


def _lack(url: str, environment: Mapping[str, str]) -> str:
    """Describe what is wrong with the token file."""
    path = environment[TOKEN_FILE]
    tokens = _read_tokens(environment)
    if tokens is None:
        return f"{TOKEN_FILE} names {path}, which is not a readable file of tokens"
    services = " or ".join(_services(url))
    return f"{path} ({TOKEN_FILE}) holds no delegation token for {services}"


def _read_tokens(environment: Mapping[str, str]) -> bytes | None:
    """Read the token file; None if none is named, or if it is not a token file."""
    try:
        with open(environment.get(TOKEN_FILE, ""), "rb") as file:
            data = file.read()
    except OSError:
        return None
    if len(data) < len(_MAGIC):  # the library panics on it
        raise InvalidInputError(f"{TOKEN_FILE} names {file.name}, which is empty; unset it, or start the job again.")
    return data if data.startswith(_MAGIC) else None


def _has_token(tokens: bytes, service: str) -> bool:
    """Whether a token is for this service.

    Both formats of the file (Writable and protobuf) write a short text as one byte of length and its bytes, so the
    file need not be parsed, and ``nn:802`` is not found in ``nn:8020``.
    """
    text = service.encode()
    return len(text) <= _SHORT_BYTES and bytes((len(text),)) + text in tokens


def _services(url: str) -> tuple[str, ...]:
    """The possible services of a token for this address, in order of preference."""
    port = _port(url)
    host = urlsplit(url).hostname or ""
    if port is None:
        return (f"ha-hdfs:{urlsplit(url).netloc}",)
    return tuple(dict.fromkeys(f"{name}:{port}" for name in (host, *_ip_addresses(host, port))))


def _ip_addresses(host: str, port: int) -> Iterator[str]:
    try:
        found = socket.getaddrinfo(host, port, socket.AF_INET, socket.SOCK_STREAM)
    except OSError:
        return
    for *_, address in found:
        yield str(address[0])


def _port(url: str) -> int | None:
    try:
        return urlsplit(url).port
    except ValueError:  # not a number: check_answers refuses the address
        return None


def _last_part(text: str) -> str:
    """The cause alone, without the general text of GSSAPI that the library puts before it."""
    general, _, cause = text.partition(": ")
    known = general.startswith(("Unspecified GSS failure", "No credentials were supplied"))
    return (cause if known and cause else text).partition("\\n")[0].rstrip(". ")
