"""One folder, many spellings: a metastore keeps locations as they were typed."""

from __future__ import annotations

from packstone.storage.location import is_store_root, split_store


def spellings_of(location: str) -> tuple[str, ...]:
    """How a location may stand in a metastore: ``file:/a``, ``file:///a``, ``/a``, with and without a last slash."""
    plain = location.rstrip("/")
    if plain.startswith("file:"):
        path = "/" + plain.removeprefix("file:").lstrip("/")
        spelled: tuple[str, ...] = (f"file:{path}", f"file://{path}", path)
    elif plain.startswith("/"):
        spelled = (plain, f"file:{plain}", f"file://{plain}")
    else:
        spelled = (plain,)
    return tuple(one + slash for one in spelled for slash in ("", "/"))


def ancestors_of(location: str) -> tuple[str, ...]:
    """The folders above a location, nearest first, without the root of its store."""
    plain = location.rstrip("/")
    prefix = ""
    if plain.startswith("file:"):
        prefix, plain = "file:", "/" + plain.removeprefix("file:").lstrip("/")
    found: list[str] = []
    at = plain.rpartition("/")[0]
    while at and not is_store_root(at) and split_store(at)[1] not in ("", "/"):
        found.append(prefix + at)
        at = at.rpartition("/")[0]
    return tuple(found)
