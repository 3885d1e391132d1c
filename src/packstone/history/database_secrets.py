"""Passwords of databases: taken from the environment or a file, and out of every message.

An address among the arguments of a process is seen by everybody on the machine, so a password had better not be in it.
What a driver says may repeat the address, so no text of one reaches the user with a secret in it.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote, quote_plus

from packstone.errors import InvalidInputError

if TYPE_CHECKING:
    from sqlalchemy import URL


def with_password(url: URL, *, variable: str, file_variable: str) -> URL:
    """Take the password from the variable, or from the file that the other one names, unless the address has one."""
    if url.password is not None or "password" in url.query:
        return url
    file = os.environ.get(file_variable)
    if file is None:
        password = os.environ.get(variable)
        return url if password is None else url.set(password=password)
    if variable in os.environ:
        raise InvalidInputError(f"{variable} and {file_variable} are both set; unset one of them.")
    try:
        # An editor ends the last line; a password that ends so on purpose can be given in the variable.
        return url.set(password=Path(file).read_text(encoding="utf-8").rstrip("\r\n"))
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise InvalidInputError(f"The file {file} that {file_variable} names cannot be read: {why}.") from None


def without_secrets(url: URL, cause: BaseException) -> str:
    """The first line of what a driver said, with every secret of the address taken out."""
    said = (str(cause).strip() or type(cause).__name__).splitlines()[0].rstrip(".")
    for secret in _secrets(url):
        said = said.replace(secret, "***")
    return said


def _secrets(url: URL) -> tuple[str, ...]:
    plain = [str(url.password)] if url.password else []
    for value in url.query.values():
        plain.extend([value] if isinstance(value, str) else value)
    spelled = {form for text in plain if text for form in (text, quote(text, safe=""), quote_plus(text))}
    # Longest first: a short secret inside a longer one must not leave the rest of the longer one standing.
    return tuple(sorted(spelled, key=len, reverse=True))
