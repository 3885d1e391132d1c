"""ACLs and extended attributes of local files as text: ``user.origin=<base64>``.

The kernel keeps a POSIX ACL as the attribute ``system.posix_acl_access``. What is kept in ``security.*`` and
``trusted.*`` describes the machine, not the data, and is left to it.
"""

from __future__ import annotations

import base64
import errno
import os
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

_ACL: Final = "system.posix_acl_access"
_DEFAULT_ACL: Final = "system.posix_acl_default"
_OURS: Final = ("user.", _ACL)
_NONE_HERE: Final = {errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS}


def read_attributes(path: str) -> tuple[str, ...]:
    """Read them; none where the file system has none."""
    if not hasattr(os, "listxattr"):
        return ()  # not Linux
    return tuple(f"{name}={_text(os.getxattr(path, name, follow_symlinks=False))}" for name in sorted(_names(path)))


def set_attributes(path: str, wanted: Iterable[str]) -> None:
    """Make them exactly these; an OSError if the file system cannot keep one."""
    now, texts = set(read_attributes(path)), set(wanted)
    kept = {text.partition("=")[0] for text in texts}
    for text in sorted(now - texts):
        name = text.partition("=")[0]
        if name not in kept:
            os.removexattr(path, name, follow_symlinks=False)
    for text in sorted(texts - now):
        name, _, value = text.partition("=")
        os.setxattr(path, name, base64.b64decode(value), follow_symlinks=False)


def inherits_acl(folder: str) -> bool:
    """Whether what is made in a folder gets the entries of a default ACL."""
    return hasattr(os, "listxattr") and _DEFAULT_ACL in _list(folder)


def find_acl(attributes: Iterable[str]) -> bytes | None:
    """The ACL among attributes, as the kernel keeps it."""
    found = (text.partition("=") for text in attributes)
    return next((base64.b64decode(value) for name, _, value in found if name == _ACL), None)


def set_folder_acl(path: str, acl: bytes | None) -> None:
    """Make this the ACL of a folder, also for what will be made in it; with None it has none, whatever it inherited."""
    found = _list(path)
    for name in (_DEFAULT_ACL, _ACL):
        if acl is not None:
            os.setxattr(path, name, acl, follow_symlinks=False)
        elif name in found:
            os.removexattr(path, name, follow_symlinks=False)


def _names(path: str) -> list[str]:
    return [name for name in _list(path) if name.startswith(_OURS)]


def _list(path: str) -> list[str]:
    try:
        return os.listxattr(path, follow_symlinks=False)
    except OSError as error:
        if error.errno in _NONE_HERE:
            return []
        raise


def _text(value: bytes) -> str:
    return base64.b64encode(value).decode()
