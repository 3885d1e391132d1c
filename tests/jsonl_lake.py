"""JSON-lines tables for tests: another writer, a reader that is not the family's, and how the family's row is added."""

import json
from pathlib import Path

from jsonl_family.family import JSONL
from jsonl_family.manifest import DataFile, publish

from packstone.storage.local import LocalFileIO
from packstone.tables import families


def with_row():
    """FAMILIES as they are with one row more, in the source."""
    *formats, plain = families.FAMILIES
    return families.FAMILIES if JSONL in formats else (*formats, JSONL, plain)


class JsonlLake:
    """One table; every line is different."""

    def __init__(self, root: Path) -> None:
        self.root, self.table = Path(root), Path(root) / "events"
        self._next = 0

    @property
    def state(self) -> Path:
        """Where our own files of the table are."""
        return self.root / ".packstone" / "events"

    def append(self, partition: str, *, files: int = 1, rows: int = 5):
        """Write as another writer does: files, then the next version."""
        folder, added = self.table / partition, []
        folder.mkdir(parents=True, exist_ok=True)
        (self.table / "manifest").mkdir(exist_ok=True)
        for _ in range(files):
            name = f"part-{self._next:04d}.jsonl"
            lines = [json.dumps({"id": self._next * 1000 + row}) for row in range(rows)]
            content = "".join(f"{line}\n" for line in lines)
            (folder / name).write_text(content)
            added.append(DataFile(partition=partition, name=name, rows=rows, size_bytes=len(content)))
            self._next += 1
        publish(LocalFileIO(), str(self.table), lambda base: base.swap((), added, keep_until=0), run="writer")
        return self

    def manifest(self):
        """The newest version, as plain JSON."""
        return json.loads(max((self.table / "manifest").iterdir()).read_bytes())

    def versions(self) -> int:
        """How many there are."""
        return len(list((self.table / "manifest").iterdir()))

    def ids(self, partition: str = "") -> list[int]:
        """What a reader sees: the ids of the live files; duplicates stay."""
        live = [file for file in self.manifest()["files"] if file["partition"].startswith(partition)]
        paths = [self.table / file["partition"] / file["name"] for file in live]
        return sorted(json.loads(line)["id"] for path in paths for line in path.read_text().splitlines())

    def live(self) -> list[str]:
        """The names of the live files."""
        return sorted(f"{file['partition']}/{file['name']}" for file in self.manifest()["files"])

    def on_disk(self) -> list[str]:
        """All data files, live or not."""
        return sorted(str(path.relative_to(self.table)) for path in self.table.glob("*=*/*"))
