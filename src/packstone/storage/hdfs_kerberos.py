"""Kerberos on HDFS: where the library finds credentials, and what to do where it finds none.

``hdfs-native`` takes a delegation token from the file that ``HADOOP_TOKEN_FILE_LOCATION`` names, as executors on YARN
have it, or else the ticket of ``kinit``. It chooses the token whose service equals the address it was given. Hadoop
writes the NameNode's IP address into the service (``hadoop.security.token.service.use_ip``), so a client of
``hdfs://namenode:8020`` finds its token only if it is given the IP address. The token of a name service has the
service ``ha-hdfs:NAME``, which the library looks for itself.
"""

from __future__ import annotations

import re
import socket
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from packstone.errors import InvalidInputError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

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
    """Explain an error of the library that is about credentials, without a full stop; None for any other error."""
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
    """What is wrong with the file of tokens."""
    path = environment[TOKEN_FILE]
    tokens = _read_tokens(environment)
    if tokens is None:
        return f"{TOKEN_FILE} names {path}, which is not a readable file of tokens"
    services = " or ".join(_services(url))
    return f"{path} ({TOKEN_FILE}) holds no delegation token for {services}"


def _read_tokens(environment: Mapping[str, str]) -> bytes | None:
    """The file of tokens as it is; None where none is named, or what is named is something else."""
    try:
        with open(environment.get(TOKEN_FILE, ""), "rb") as file:
            data = file.read()
    except OSError:
        return None
    if len(data) < len(_MAGIC):  # on which the library panics
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
    """What a token for this address may be called, in the order of preference."""
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
    except ValueError:  # no number: check_answers refuses the address
        return None


def _last_part(text: str) -> str:
    """The cause alone: the library puts the general text of GSSAPI before it."""
    general, _, cause = text.partition(": ")
    known = general.startswith(("Unspecified GSS failure", "No credentials were supplied"))
    return (cause if known and cause else text).partition("\\n")[0].rstrip(". ")
