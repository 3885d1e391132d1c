"""Units into tasks: the biggest first, tiny ones together, because an empty Spark task costs 40 ms."""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING

from packstone.tables.hive.tasks import Task, TaskKind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from packstone.model.unit import UnitSpec

_TASK_BYTES = 32 << 20  # about a second of work
_TASK_UNITS = 64


def pack_tasks(specs: Sequence[UnitSpec], *, parallel: int | None) -> list[Task]:
    """Deal units to tasks; with ``parallel`` at most that many, balanced by bytes."""
    biggest_first = sorted(specs, key=lambda spec: (-spec.input_bytes, spec.unit))
    packs = _deal(biggest_first, parallel) if parallel else _fill(biggest_first)
    return [Task(kind=TaskKind.UNITS, number=number, units=tuple(pack)) for number, pack in enumerate(packs)]


def _fill(specs: list[UnitSpec]) -> list[list[UnitSpec]]:
    packs: list[list[UnitSpec]] = []
    room = 0
    for spec in specs:
        if room < spec.input_bytes or len(packs[-1]) >= _TASK_UNITS:
            packs.append([])
            room = _TASK_BYTES
        packs[-1].append(spec)
        room -= spec.input_bytes
    return packs


def _deal(specs: list[UnitSpec], parallel: int) -> list[list[UnitSpec]]:
    heap: list[tuple[int, int, list[UnitSpec]]] = [(0, at, []) for at in range(min(parallel, len(specs)))]
    for spec in specs:
        size_bytes, at, pack = heapq.heappop(heap)
        pack.append(spec)
        heapq.heappush(heap, (size_bytes + spec.input_bytes, at, pack))
    return [pack for _, _, pack in sorted(heap, key=lambda item: item[1])]
