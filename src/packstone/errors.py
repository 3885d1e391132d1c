"""The errors that Packstone raises, named by what the caller should do.

::

    PackstoneError
    ├── InvalidInputError      fix the call: a wrong argument, a missing path or package (exit code 2)
    │   ├── UnsupportedSchemeError   a storage that is not supported                    (exit code 2)
    │   └── SeveralTablesError       a folder of tables; `facts["tables"]` has them     (exit code 2)
    ├── RefusedError           nothing was done, on purpose; the message says why      (exit code 3)
    │   └── UnfaithfulError        an output would differ from its inputs; the group is skipped
    ├── ConflictError          another process changed or owns it: plan again later    (exit code 3)
    ├── CommitUnknownError     the commit may or may not have happened: run `recover`  (exit code 1)
    ├── UnavailableError       storage or Spark did not answer: back off and retry     (exit code 1)
    └── CorruptionError        stop and keep the evidence                              (exit code 1)
        ├── UnreadableFileError    one input cannot be read; work on other files may continue
        └── VerificationError      the rows after the rewrite differ from those before

A message is one sentence that says what to do. Facts are attributes and survive pickling, because executors raise
these errors too.
"""

from __future__ import annotations

from typing import Any


class PackstoneError(Exception):
    """The root of all errors of Packstone."""

    exit_code = 1

    def __init__(self, message: str, **facts: Any) -> None:
        super().__init__(message)
        self.message = message
        self.facts = facts

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle with the facts; the default implementation keeps only the positional arguments."""
        return _rebuild, (type(self), self.message, self.facts)


class InvalidInputError(PackstoneError):
    """The arguments are invalid; fix the call."""

    exit_code = 2


class UnsupportedSchemeError(InvalidInputError):
    """The address names a kind of storage that Packstone does not support."""


class SeveralTablesError(InvalidInputError):
    """The target is a folder of tables; ``facts["tables"]`` are their paths."""


class RefusedError(PackstoneError):
    """Packstone refuses this operation on this table; the message says why, and nothing was changed."""

    exit_code = 3


class UnfaithfulError(RefusedError):
    """These files cannot be rewritten with identical content, so they are left unchanged."""


class ConflictError(PackstoneError):
    """Another process owns or changed what the plan is based on; nothing was changed; plan again."""

    exit_code = 3


class CommitUnknownError(PackstoneError):
    """A commit stopped half-way; run `packstone recover` before retrying."""


class UnavailableError(PackstoneError):
    """Storage, Spark or a database did not answer or had no free space; try again later."""


class CorruptionError(PackstoneError):
    """Data is corrupt; stop and keep the evidence."""


class UnreadableFileError(CorruptionError):
    """One input file cannot be read: ``facts['file']`` names it, ``message`` says why."""


class VerificationError(CorruptionError):
    """The rows after the rewrite differ from the rows before it; nothing was published."""


def storage_sentence(error: OSError) -> str:
    """Return the operating system's error message, with the file, as one sentence."""
    about = f" ({error.filename})" if error.filename else ""
    return f"The storage failed: {error.strerror or error}{about}."


def _rebuild(kind: type[PackstoneError], message: str, facts: dict[str, Any]) -> PackstoneError:
    return kind(message, **facts)
