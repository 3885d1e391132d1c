"""Units into tasks: the biggest first, tiny ones together, because an empty Spark task costs 40 ms."""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING, TypeVar

from packstone.tables.hive.tasks import Task, TaskKind

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from packstone.model.unit import UnitSpec
    from packstone.tables.hive.copy_file import CopySpec

_TASK_BYTES = 32 << 20  # about a second of work
_TASK_UNITS = 64

UnitT = TypeVar("UnitT")


def pack_tasks(
    specs: Sequence[UnitSpec], *, parallel: int | None, deaths: str, copies: Sequence[CopySpec] = ()
) -> list[Task]:
    """Deal units to tasks, then copies; with ``parallel`` at most that many of each, balanced by bytes."""
    packs = pack_by_bytes(
        sorted(specs, key=lambda spec: spec.unit), size_of=lambda spec: spec.input_bytes, parallel=parallel
    )
    tasks = [
        Task(kind=TaskKind.UNITS, number=number, deaths=deaths, units=tuple(pack)) for number, pack in enumerate(packs)
    ]
    copied = pack_by_bytes(copies, size_of=lambda spec: spec.file.size_bytes, parallel=parallel)
    tasks += [
        Task(kind=TaskKind.COPIES, number=number, copies=tuple(pack)) for number, pack in enumerate(copied, len(tasks))
    ]
    return tasks


def pack_by_bytes(
    units: Sequence[UnitT], *, size_of: Callable[[UnitT], int], parallel: int | None
) -> list[list[UnitT]]:
    """Deal units of any kind, the biggest first; equals keep their order."""
    biggest_first = sorted(units, key=lambda unit: -size_of(unit))
    return _deal(biggest_first, size_of, parallel) if parallel else _fill(biggest_first, size_of)


def _fill(units: list[UnitT], size_of: Callable[[UnitT], int]) -> list[list[UnitT]]:
    packs: list[list[UnitT]] = []
    room = 0
    for unit in units:
        if not packs or room < size_of(unit) or len(packs[-1]) >= _TASK_UNITS:
            packs.append([])
            room = _TASK_BYTES
        packs[-1].append(unit)
        room -= size_of(unit)
    return packs


def _deal(units: list[UnitT], size_of: Callable[[UnitT], int], parallel: int) -> list[list[UnitT]]:
    heap: list[tuple[int, int, list[UnitT]]] = [(0, at, []) for at in range(min(parallel, len(units)))]
    for unit in units:
        size_bytes, at, pack = heapq.heappop(heap)
        pack.append(unit)
        heapq.heappush(heap, (size_bytes + size_of(unit), at, pack))
    return [pack for _, _, pack in sorted(heap, key=lambda item: item[1])]
