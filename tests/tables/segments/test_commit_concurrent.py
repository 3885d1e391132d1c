"""Many processes commit to one table at once: every commit gets through, no id is given twice, readers see it whole."""

from itertools import pairwise

from segment_calls import segment_create

from packstone.storage.local import LocalFileIO
from packstone.tables.segments.format.status_files import list_versions, read_latest, read_version

IO = LocalFileIO()
WRITERS = 8
LOADS = 25  # two commits each


def test_every_load_gets_through(children, tmp_path):
    """Eight processes, fifty commits each: all succeed, ids are all different, no version is lost or skipped."""
    path = str(tmp_path / "t")
    segment_create(IO, path)
    pids = [children.start("segment_load_loop", path=path, count=LOADS) for _ in range(WRITERS)]
    answers = [children.wait(pid) for pid in pids]
    assert [answer.get("error") for answer in answers] == [None] * WRITERS, answers
    ids = [one for answer in answers for one in answer["value"]["ids"]]
    assert sorted(map(int, ids)) == list(range(WRITERS * LOADS))
    status = read_latest(IO, path)
    assert [entry.id.load for entry in status.live] == list(range(WRITERS * LOADS))
    assert list_versions(IO, path) == range(1, 2 + 2 * WRITERS * LOADS)
    found = [read_version(IO, path, version) for version in list_versions(IO, path)]
    assert all(later.ancestors[-1] == one.commit for one, later in pairwise(found))


def test_readers_and_removal_beside_loads(children, tmp_path):
    """Versions are removed from under readers and writers all the time: nobody sees a broken table, nobody loses."""
    path, stop = str(tmp_path / "t"), tmp_path / "stop"
    segment_create(IO, path)
    beside = [
        children.start("segment_read_loop", path=path, stop=stop),
        children.start("segment_prune_loop", path=path, keep=20, stop=stop),
    ]
    pids = [children.start("segment_load_loop", path=path, count=20) for _ in range(3)]
    answers = [children.wait(pid) for pid in pids]
    stop.write_text("")
    answers += [children.wait(pid) for pid in beside]
    assert [answer.get("error") for answer in answers] == [None] * len(answers), answers
    ids = [one for answer in answers[:3] for one in answer["value"]["ids"]]
    assert sorted(map(int, ids)) == list(range(60))
    assert [entry.id.load for entry in read_latest(IO, path).live] == list(range(60))
    assert answers[-1]["value"] > 10
