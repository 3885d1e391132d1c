"""What ``hdfs-native`` raises, as the errors that the rest of Packstone knows: those of files.

The library hands on what the NameNode answered: the name of a Java class, a sentence, and a Java stack. The sentence is
kept, the stack stays in the cause.
"""

from __future__ import annotations

import errno
import os
import re
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from packstone.storage.hdfs_kerberos import refusal
from packstone.storage.location import split_store

if TYPE_CHECKING:
    from collections.abc import Iterator

_ANSWER: Final = re.compile(r'^(?:Fatal)?RPCError\("([\w.$]+)", "(.*)"\)$', re.DOTALL)
# How the library and the system say that a connection broke while an answer was awaited.
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
    """A connection broke while an answer was awaited: what was asked may have been done."""


@contextmanager
def as_os_errors(path: str) -> Iterator[None]:
    """Raise OSErrors with a number, one line of text and the path."""
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
        # A TimeoutError, whatever it was: nobody there, a connection that broke.
        said = _first_line(error)
        kind = BrokenConnectionError if _BROKEN.search(said) else TimeoutError
        raise kind(errno.ETIMEDOUT, f"HDFS does not answer: {said}", path) from error
    except RuntimeError as error:
        raise _answer(str(error), path) from error


def _answer(text: str, path: str) -> OSError:
    """Turn an answer of the NameNode into the error with its number."""
    answer = _ANSWER.match(text)
    if (why := refusal(text, split_store(path)[0], os.environ)) is not None:
        return OSError(errno.ENOKEY, why, path)  # not EACCES, after which a folder or a file would be left alone
    if answer is None:
        return OSError(errno.EIO, f"HDFS said: {text.partition(chr(10))[0]}", path)
    kind, said = answer.group(1).rpartition(".")[2], _said(answer.group(2))
    if kind == "StandbyException":  # the library asked all of them, for as long as it waits
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
