"""Attribute errors of decoding to the file that was decoded, unless the storage or the machine failed.

Damaged bytes make decoders raise almost anything: ArrowInvalid and OSError, but also UnicodeDecodeError, IndexError,
OverflowError or MemoryError. To the caller all of them mean the same: this file cannot be read, the others can.
"""

from __future__ import annotations

import contextlib
import errno
from typing import TYPE_CHECKING, Final

from packstone.errors import PackstoneError, UnreadableFileError

if TYPE_CHECKING:
    from collections.abc import Iterator

# Failures of the machine or the storage, which do not depend on the file that was being read.
_NOT_THE_FILE: Final = frozenset(
    {
        errno.ENOSPC,
        errno.EDQUOT,
        errno.EFBIG,
        errno.EROFS,
        errno.EMFILE,
        errno.ENFILE,
        errno.ENOMEM,
        errno.ESTALE,
        errno.ENOTCONN,
        errno.ETIMEDOUT,
        errno.ECONNREFUSED,
        errno.ECONNRESET,
        errno.ECONNABORTED,
        errno.EPIPE,
        errno.EHOSTDOWN,
        errno.EHOSTUNREACH,
        errno.ENETDOWN,
        errno.ENETUNREACH,
    }
)


def is_storage_failure(error: BaseException) -> bool:
    """Whether an error is about the storage or the machine and not about the bytes of one file."""
    return isinstance(error, OSError) and error.errno in _NOT_THE_FILE


@contextlib.contextmanager
def blame_file(path: str, what: str) -> Iterator[None]:
    """Convert errors of decoding a file to UnreadableFileError, e.g. ``PATH has a broken data page: …``."""
    try:
        yield
    except PackstoneError:
        raise
    except Exception as error:
        if is_storage_failure(error):
            raise
        raise UnreadableFileError(f"{path} {what}: {describe_error(error)}.", file=path) from error


def one_line(error: BaseException) -> str:
    """The first line of an error, without a final period."""
    text = str(error) or type(error).__name__
    return text.splitlines()[0].rstrip(". ")


def describe_error(error: BaseException) -> str:
    """One line about an error, with its type if the text alone does not say what happened."""
    if isinstance(error, (LookupError, TypeError, MemoryError, AttributeError)):
        return f"{type(error).__name__} {one_line(error)}"
    return one_line(error)
