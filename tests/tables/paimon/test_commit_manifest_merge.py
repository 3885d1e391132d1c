"""Which manifests are merged, and that merging keeps exactly the live files."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from paimon_scene import EMPTY_ROW, MB, data_file, manifest

from packstone.errors import CorruptionError
from packstone.tables.paimon.draft import (
    FullMerge,
    MergeLimits,
    MinorMerge,
    merge_manifests,
    plan_manifest_merge,
)
from packstone.tables.paimon.format.data_file import FileKind, ManifestEntry

LIMITS = MergeLimits(target_bytes=8 * MB, full_threshold_bytes=16 * MB, min_count=3)


def groups(*sizes):
    """The minor groups of manifests of these sizes in MB, by size."""
    plan = plan_manifest_merge([manifest(f"m{n}", size) for n, size in enumerate(sizes)], LIMITS)
    assert isinstance(plan, MinorMerge)
    return [tuple(m.file_size // MB for m in group) for group in plan.groups]


def test_neighbours_are_joined_up_to_the_target():
    """A group closes once it reaches the target; a short tail of few stays."""
    assert groups(5, 4, 8, 1, 1) == [(5, 4), (8,), (1,), (1,)]


def test_a_tail_of_many_is_joined():
    """Many tiny manifests are joined although they stay below the target."""
    assert groups(8, 1, 1, 1) == [(8,), (1, 1, 1)]


@pytest.mark.parametrize(
    ("sizes", "deleted", "full"),
    [
        ((20, 7, 7, 2), (0, 0, 0, 0), True),  # 16 of small ones
        ((20, 7, 7, 1), (0, 0, 0, 0), False),
        ((20, 1), (1, 0), True),  # a big one with deletions counts
        ((20,), (1,), False),  # alone there is nothing to merge with
    ],
)
def test_full_merge_once_enough_must_change(sizes, deleted, full):
    """Small manifests and those with deletions sum up to the threshold."""
    metas = [manifest(f"m{n}", size, deleted=d) for n, (size, d) in enumerate(zip(sizes, deleted, strict=True))]
    assert isinstance(plan_manifest_merge(metas, LIMITS), FullMerge) is full


class Store:
    """Manifests in memory; ``write`` rolls after a few entries."""

    def __init__(self, contents):
        self.entries = {f"m{n}": tuple(content) for n, content in enumerate(contents)}

    def metas(self, size_mb):
        """All of them, of one size."""
        return [self.meta(name, size_mb) for name in self.entries]

    def meta(self, name, size_mb=1):
        """Describe one."""
        deleted = sum(entry.kind is FileKind.DELETE for entry in self.entries[name])
        return manifest(name, size_mb, deleted=deleted)

    def read(self, meta):
        """Yield its entries."""
        yield from self.entries[meta.file_name]

    def write(self, entries):
        """Write entries, three to a manifest."""
        content = tuple(entries)
        names = []
        for at in range(0, len(content), 3):
            names.append(f"w{len(self.entries)}")
            self.entries[names[-1]] = content[at : at + 3]
        return tuple(self.meta(name) for name in names)

    def live(self, metas):
        """The live files by the plain rule: replay all lines in order."""
        found = {}
        for meta in metas:
            for entry in self.read(meta):
                if entry.kind is FileKind.ADD:
                    found[entry.identity] = found.get(entry.identity, 0) + 1
                else:
                    found[entry.identity] = found.get(entry.identity, 0) - 1
        return {identity: count for identity, count in found.items() if count}


def entry(kind, number, level=0):
    """One line."""
    return ManifestEntry(
        kind=kind, partition=EMPTY_ROW, bucket=0, total_buckets=1, file=data_file(f"f{number}", level=level)
    )


@st.composite
def histories(draw):
    """Manifests of a table in which files appear, vanish, move up, and even come back."""
    live, contents = set(), []
    for _ in range(draw(st.integers(1, 12))):
        lines = []
        for number in draw(st.lists(st.integers(0, 5), max_size=4)):
            level = draw(st.integers(0, 1))
            kind = FileKind.DELETE if (number, level) in live else FileKind.ADD
            live.symmetric_difference_update({(number, level)})
            lines.append(entry(kind, number, level))
        contents.append(lines)
    return contents


@pytest.mark.parametrize("size_mb", [1, 3, 9])
@given(contents=histories())
def test_merging_keeps_the_live_files(contents, size_mb):
    """Whatever is merged, minor or full: the live files are the same, and full leaves no deletion."""
    store = Store(contents)
    before = store.metas(size_mb)
    expected = store.live(before)
    after = merge_manifests(before, LIMITS, read=store.read, scan=store.read, write=store.write)
    assert store.live(after) == expected
    assert len(after) <= len(before) + 1
    if isinstance(plan_manifest_merge(before, LIMITS), FullMerge):
        assert all(meta.num_deleted_files == 0 for meta in after)


def test_deletions_of_older_manifests_are_kept_by_a_minor_merge():
    """A DELETE whose ADD lies outside the group must survive; one that comes back after it too."""
    store = Store([[entry(FileKind.DELETE, 1)], [entry(FileKind.ADD, 1)], [entry(FileKind.ADD, 2)]])
    (merged,) = merge_manifests(store.metas(1), LIMITS, read=store.read, scan=store.read, write=store.write)
    assert [line.kind for line in store.read(merged)] == [FileKind.DELETE, FileKind.ADD, FileKind.ADD]


def test_a_manifest_without_deleted_files_is_not_rewritten():
    """A full merge leaves big manifests alone that name no deleted file."""
    store = Store([[entry(FileKind.ADD, 1)], [entry(FileKind.ADD, 2)], [entry(FileKind.DELETE, 2)]])
    metas = [store.meta("m0", 20), store.meta("m1", 20), store.meta("m2", 16)]
    after = merge_manifests(metas, LIMITS, read=store.read, scan=store.read, write=store.write)
    assert [meta.file_name for meta in after] == ["m0"]


def test_a_dangling_deletion_stops_a_full_merge():
    """A DELETE without its ADD is evidence of a broken table; merging would wipe it out."""
    store = Store([[entry(FileKind.ADD, 1)], [entry(FileKind.DELETE, 2)]])
    with pytest.raises(CorruptionError, match="f2"):
        merge_manifests(store.metas(17), LIMITS, read=store.read, scan=store.read, write=store.write)


def test_a_deletion_that_the_list_does_not_count_is_not_lost():
    """A list that says 0 deletions is wrong, not a licence to drop one."""
    store = Store([[entry(FileKind.DELETE, 7), entry(FileKind.ADD, 1)], [entry(FileKind.ADD, 2)], []])
    metas = [manifest(name, 1) for name in store.entries]
    (merged,) = merge_manifests(metas, LIMITS, read=store.read, scan=store.read, write=store.write)
    assert [line.kind for line in store.read(merged)] == [FileKind.DELETE, FileKind.ADD, FileKind.ADD]
