"""``health`` by family: look at a table, draw what was found."""

from __future__ import annotations

from typing import Any, TypeAlias

from packstone.cli.draw import draw_health
from packstone.cli.draw_paimon import draw_paimon_health
from packstone.cli.draw_segment_health import draw_segment_health
from packstone.cli.family import family_of
from packstone.cli.named_target import is_named, named_table
from packstone.model.merge_options import MergeOptions
from packstone.model.sizes import parse_bytes
from packstone.service.health import Health
from packstone.service.hive_table import HiveTable
from packstone.service.paimon_health import PaimonHealth
from packstone.service.paimon_table import PaimonTable
from packstone.service.segment_health import SegmentHealth
from packstone.service.segment_table import SegmentTable
from packstone.storage.location import parse_location
from packstone.tables.probe import Family

AnyHealth: TypeAlias = Health | PaimonHealth | SegmentHealth


def observe_any(target: str, typed: dict[str, Any]) -> AnyHealth:
    """Look at one target."""
    block = parse_bytes(typed["block_size"])
    threshold = parse_bytes(typed["threshold"]) if typed["threshold"] else block
    options = MergeOptions(threshold_bytes=threshold, target_bytes=block)
    if is_named(target, typed):
        with named_table(target, typed) as table:
            return table.health(options)
    path = parse_location(target).path
    family = family_of(path)
    if family is Family.PAIMON:
        return PaimonTable(path).health()
    if family is Family.SEGMENTS:
        return SegmentTable(path).health()
    return HiveTable(path).health(options)


def draw_any_health(console: Any, health: AnyHealth) -> None:  # noqa: ANN401 - a rich console
    """Draw it as its family is drawn."""
    if isinstance(health, PaimonHealth):
        draw_paimon_health(console, health)
    elif isinstance(health, SegmentHealth):
        draw_segment_health(console, health)
    else:
        draw_health(console, health)
