"""ACL entries of HDFS as text, the way ``hdfs dfs -getfacl`` prints them: ``user:joe:rwx``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, cast

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hdfs_native import AclEntry

_LETTERS: Final = "rwx"


def acl_texts(entries: Iterable[AclEntry]) -> tuple[str, ...]:
    """Write the entries of a file's ACL; those that the mode tells already are not among them."""
    return tuple(sorted(f"{e.type}:{e.name or ''}:{e.permissions}" for e in entries if e.scope == "access"))


def acl_entries(texts: Iterable[str], *, mode: int) -> list[AclEntry]:
    """Make the whole ACL: the entries, and owner, mask and others out of the mode."""
    from hdfs_native import AclEntry  # noqa: PLC0415 - an extra

    # With an ACL the group's place in the mode holds the mask, and the group has an entry of its own.
    bits: Any = (("user", mode >> 6), ("mask", mode >> 3), ("other", mode))
    whole = [AclEntry(kind, "access", _action(number & 0o7)) for kind, number in bits]
    for text in texts:
        kind, name, action = cast("Any", text.split(":", 2))  # of the words that the library asks for
        whole.append(AclEntry(kind, "access", action, name or None))
    return whole


def _action(bits: int) -> Any:  # noqa: ANN401 - one of eight words
    return "".join(letter if bits >> (2 - at) & 1 else "-" for at, letter in enumerate(_LETTERS))
