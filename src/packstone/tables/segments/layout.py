"""Where everything of a segment table stands. Pure names; data is found by what the status names, never by listing.

::

    <table>/Metadata/status/00000000000000000007.json    version 7: the commit point
    <table>/Metadata/latest                              a hint of the newest version, never trusted
    <table>/Metadata/floor/00000000000000000003          versions below 3 are removed, or about to be
    <table>/Metadata/retired/<name>.json                 compacted and deleted segments that are not yet cleaned
    <table>/Metadata/history/<name>.json                 segments that clean has removed
    <table>/Metadata/segments/0.1_<attempt>.json         the files of one segment
    <table>/Metadata/index/0.1_<attempt>.arrow           what is in them, row group by row group
    <table>/Metadata/attempts/<attempt>/                 a running load or compaction
    <table>/Metadata/deaths/                             files that were being read when a process died
    <table>/Metadata/badrecords/7_<attempt>/             rows that a load left out, with reasons
    <table>/Metadata/trash/<ms>/                         what clean has moved away
    <table>/Fact/Segment_0.1/part-<task>-<n>-<attempt>-<try>.parquet
"""

from __future__ import annotations

import re
from typing import Final

from packstone.model.segment import SegmentId

DATA_FOLDER: Final = "Fact"
METADATA_FOLDER: Final = "Metadata"
_STATUS: Final = re.compile(r"(\d{20})\.json")
_FLOOR: Final = re.compile(r"\d{20}")


def status_folder(table: str) -> str:
    """Where the versions stand; a folder that has this one is a segment table."""
    return f"{table}/{METADATA_FOLDER}/status"


def status_path(table: str, version: int) -> str:
    """The file of one version."""
    return f"{status_folder(table)}/{version:020d}.json"


def parse_status_name(name: str) -> int | None:
    """The version that a file name tells, or None if it is none of ours."""
    match = _STATUS.fullmatch(name)
    return int(match[1]) if match else None


def hint_path(table: str) -> str:
    """The hint of the newest version: beside the versions, so that listing them finds nothing else."""
    return f"{table}/{METADATA_FOLDER}/latest"


def floor_folder(table: str) -> str:
    """Where it stands which versions are no longer any."""
    return f"{table}/{METADATA_FOLDER}/floor"


def floor_path(table: str, version: int) -> str:
    """The empty file that says that all versions below are gone."""
    return f"{floor_folder(table)}/{version:020d}"


def parse_floor_name(name: str) -> int | None:
    """The version that such a file's name tells, or None if it is none of ours."""
    return int(name) if _FLOOR.fullmatch(name) else None


def retired_folder(table: str) -> str:
    """Where lists of compacted and deleted segments stand."""
    return f"{table}/{METADATA_FOLDER}/retired"


def retired_path(table: str, name: str) -> str:
    """One such list, by the name in the status."""
    return f"{retired_folder(table)}/{name}"


def history_folder(table: str) -> str:
    """Where lists of cleaned segments stand."""
    return f"{table}/{METADATA_FOLDER}/history"


def history_path(table: str, name: str) -> str:
    """One such list, by the name in the status."""
    return f"{history_folder(table)}/{name}"


def segments_folder(table: str) -> str:
    """Where segment files stand."""
    return f"{table}/{METADATA_FOLDER}/segments"


def segment_file_name(segment: SegmentId, attempt: str) -> str:
    """The segment file that an attempt writes."""
    return f"{segment}_{attempt}.json"


def segment_file_path(table: str, name: str) -> str:
    """A segment file, by the name in the status."""
    return f"{segments_folder(table)}/{name}"


def index_folder(table: str) -> str:
    """Where index files stand."""
    return f"{table}/{METADATA_FOLDER}/index"


def index_file_name(segment: SegmentId, attempt: str) -> str:
    """The index file that an attempt writes."""
    return f"{segment}_{attempt}.arrow"


def index_file_path(table: str, name: str) -> str:
    """An index file, by the name in its segment file."""
    return f"{index_folder(table)}/{name}"


def deaths_folder(table: str) -> str:
    """The folder with notes about files that were being read when a process died."""
    return f"{table}/{METADATA_FOLDER}/deaths"


def attempts_folder(table: str) -> str:
    """Where running loads and compactions tell of themselves."""
    return f"{table}/{METADATA_FOLDER}/attempts"


def attempt_folder(table: str, attempt: str) -> str:
    """The folder of one attempt."""
    return f"{attempts_folder(table)}/{attempt}"


def attempt_path(table: str, attempt: str) -> str:
    """Who runs it, and what."""
    return f"{attempt_folder(table, attempt)}/attempt.json"


def heartbeat_path(table: str, attempt: str) -> str:
    """The file whose time says that the attempt lives."""
    return f"{attempt_folder(table, attempt)}/heartbeat"


def bad_records_folder(table: str, segment: SegmentId, attempt: str) -> str:
    """Where a load leaves its bad rows."""
    return f"{table}/{METADATA_FOLDER}/badrecords/{segment}_{attempt}"


def trash_folder(table: str) -> str:
    """Where clean moves things before they go for good, one folder a clean."""
    return f"{table}/{METADATA_FOLDER}/trash"


def segment_folder(segment: SegmentId) -> str:
    """The folder of a segment's data files, relative to the table."""
    return f"{DATA_FOLDER}/Segment_{segment}"


def data_file_name(*, task: int, number: int, attempt: str, attempt_try: int) -> str:
    """A data file's name; attempt and try make it unique, so a retry never meets an older one's file."""
    return f"part-{task:05d}-{number:05d}-{attempt}-{attempt_try}.parquet"


def data_file_path(table: str, relative: str) -> str:
    """A data file, by its path in the segment file."""
    return f"{table}/{relative}"


def metadata_folders(table: str) -> tuple[str, ...]:
    """What create makes."""
    return (
        status_folder(table),
        retired_folder(table),
        history_folder(table),
        segments_folder(table),
        index_folder(table),
        attempts_folder(table),
    )
