"""Every error Packstone raises on purpose, named by what the caller should do about it.

::

    PackstoneError
    ├── InvalidInputError      fix the call: a wrong argument, a missing path          (exit code 2)
    │   └── UnsupportedSchemeError   a storage we do not speak yet                      (exit code 2)
    ├── RefusedError           nothing was done, on purpose; the reason says why       (exit code 3)
    │   └── UnfaithfulError        an output would differ from its inputs; the group is left alone
    ├── ConflictError          somebody else changed or owns it: plan again, later     (exit code 3)
    ├── CommitUnknownError     the commit may or may not have happened: run `recover`  (exit code 1)
    ├── UnavailableError       storage or Spark did not answer: back off and retry     (exit code 1)
    └── CorruptionError        stop and keep the evidence                              (exit code 1)
        ├── UnreadableFileError    one input cannot be read; the rest may go on
        └── VerificationError      the rows after are not the rows before

A message is one clear sentence that says what to do. Facts are attributes, and they survive
pickling, because executors raise these errors too.
"""

from __future__ import annotations

from typing import Any


class PackstoneError(Exception):
    """The root of all errors raised on purpose."""

    exit_code = 1

    def __init__(self, message: str, **facts: Any) -> None:  # noqa: ANN401 - facts are of any type
        super().__init__(message)
        self.message = message
        self.facts = facts

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle with the facts: the default keeps only the positional arguments."""
        return _rebuild, (type(self), self.message, self.facts)


class InvalidInputError(PackstoneError):
    """The call is wrong; fixing the call fixes it."""

    exit_code = 2


class UnsupportedSchemeError(InvalidInputError):
    """The address names a kind of storage that Packstone does not speak yet."""


class RefusedError(PackstoneError):
    """Packstone will not do this to this table, and says why; nothing was changed."""

    exit_code = 3


class UnfaithfulError(RefusedError):
    """These files cannot be written back identically, so they are left as they are."""


class ConflictError(PackstoneError):
    """Somebody else owns or changed what we planned on; nothing was changed; plan again."""

    exit_code = 3


class CommitUnknownError(PackstoneError):
    """A commit stopped half-way; look (`packstone recover`) before retrying."""


class UnavailableError(PackstoneError):
    """Storage, Spark or a database did not answer or had no room; try again later."""


class CorruptionError(PackstoneError):
    """Data is not what it should be; stop and keep the evidence."""


class UnreadableFileError(CorruptionError):
    """One input file cannot be read: ``facts['file']`` names it, ``message`` says why."""


class VerificationError(CorruptionError):
    """The rows after the rewrite are not the rows before it; nothing was published."""


def storage_sentence(error: OSError) -> str:
    """Say what the operating system said, and about which file, as one sentence."""
    about = f" ({error.filename})" if error.filename else ""
    return f"The storage failed: {error.strerror or error}{about}."


def _rebuild(kind: type[PackstoneError], message: str, facts: dict[str, Any]) -> PackstoneError:
    return kind(message, **facts)
