"""How the health of a segment table looks on a terminal: how many segments, of which size and level, what waits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from packstone.cli.draw_parts import BAR_CELLS, bar, draw_reasons, draw_score
from packstone.cli.output import many
from packstone.model.sizes import format_bytes

if TYPE_CHECKING:
    from collections.abc import Mapping

    from packstone.service.segment_health import SegmentHealth

_SHOWN_HAZARDS = 15


def draw_segment_health(console: Any, health: SegmentHealth) -> None:  # noqa: ANN401 - a rich console
    """Draw the state of a table."""
    draw_score(console, health.score, health.table)
    console.print(f"segment table, version {health.version:,} ({health.versions:,} kept)")
    if not health.segments:
        console.print("no segments yet")
    else:
        _draw_live(console, health)
    if health.retired_segments:
        size = format_bytes(health.retired_bytes)
        console.print(f"{many(health.retired_segments, 'compacted or deleted segment')}, {size}, wait for `clean`")
    for one in (one for one in health.running if one["alive"]):  # of one that died, a hazard tells
        console.print(
            f"at work: {one['what']} ({one['process'] or 'its process is not known'})", style="cyan", markup=False
        )
    draw_reasons(console, ((h["hazard"], "yellow", h["where"], h["evidence"]) for h in health.hazards[:_SHOWN_HAZARDS]))
    if len(health.hazards) > _SHOWN_HAZARDS:
        console.print(f"… and {len(health.hazards) - _SHOWN_HAZARDS:,} more hazards, see --format json", style="dim")


def _draw_live(console: Any, health: SegmentHealth) -> None:  # noqa: ANN401 - a rich console
    where = f"{many(health.files, 'file')} of {many(health.segments, 'segment')}"
    console.print(f"{where}, {format_bytes(health.bytes)}, {many(health.rows, 'row')}")
    planned = [f"{name} compaction: {many(count, 'merge')}" for name, count in health.planned.items() if count]
    least = f"[bold]{health.ideal_segments:,}[/] would do" if health.segments > 1 else "as few as can be"
    console.print(f"{least}; {', '.join(planned) or 'nothing to merge now'}")
    _draw_bars(console, {_level(level): count for level, count in sorted(health.levels.items())})


def _draw_bars(console: Any, counts: Mapping[str, int]) -> None:  # noqa: ANN401 - a rich console
    most, width = max(counts.values()), max(map(len, counts))
    for name, count in counts.items():
        console.print(f"  {name:<{width}} [cyan]{bar(count, most, cells=BAR_CELLS)}[/] {many(count, 'segment')}")


def _level(merges: int) -> str:
    return "loads" if merges == 0 else "merged once" if merges == 1 else f"merged {merges} times"
