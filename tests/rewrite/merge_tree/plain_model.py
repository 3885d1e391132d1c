"""Merging record by record, as a reader in Java does: the model that the column operations are compared with."""

from __future__ import annotations

import math
import struct
from decimal import ROUND_HALF_UP, Context, Decimal

INSERT, UPDATE_BEFORE, UPDATE_AFTER, DELETE = range(4)


class ModelError(Exception):
    """The record cannot be merged."""


EXACT = Context(prec=100)  # Python's own would round to 28 digits


def java_key(value):
    """Nulls first, floats by their bits, texts by their bytes."""
    if value is None:
        return (0,)
    if isinstance(value, float):
        if math.isnan(value):
            return (1, 2**63)
        bits = struct.unpack(">q", struct.pack(">d", value))[0]
        return (1, bits if bits >= 0 else bits ^ 0x7FFFFFFFFFFFFFFF)
    if isinstance(value, str):
        return (1, value.encode())
    return (1, value)


class Descending:
    """Turns the order round."""

    def __init__(self, value):
        self.value = value

    def __lt__(self, other):
        return other.value < self.value

    def __eq__(self, other):
        return other.value == self.value

    __hash__ = None


def age_key(record, sequence_columns, descending):
    """By what the records of one key are ordered."""
    parts = []
    for name in sequence_columns:
        found = java_key(record[name])
        parts.append((found[0], Descending(found[1:]) if descending else found[1:]))
    return (*parts, record["_SEQUENCE_NUMBER"], record["_VALUE_KIND"] % 2 == 0)


def merge_runs(runs, *, keys, merge, sequence_columns=(), descending=False, drop_deletes=False):
    """Group all records by key, order them by age, merge those of a key that has several."""
    groups = {}
    for record in (record for run in runs for record in run):
        groups.setdefault(tuple(java_key(record[name]) for name in keys), []).append(record)
    result = []
    for key in sorted(groups):
        records = sorted(groups[key], key=lambda r: age_key(r, sequence_columns, descending))
        merged = records[0] if len(records) == 1 else merge(records)
        if merged is not None and not (drop_deletes and merged["_VALUE_KIND"] % 2):
            result.append(merged)
    return result


def deduplicate(records, *, ignore_delete=False):
    """The last record; with ignore_delete the last that adds."""
    kept = [r for r in records if not (ignore_delete and r["_VALUE_KIND"] % 2)]
    return kept[-1] if kept else None


def first_row(records, *, ignore_delete=False):
    """The first record that adds."""
    if not ignore_delete and any(r["_VALUE_KIND"] % 2 for r in records):
        raise ModelError("retract")
    kept = [r for r in records if not r["_VALUE_KIND"] % 2]
    return kept[0] if kept else None


def partial_update(records, *, values, ignore_delete=False, remove_on_delete=False):
    """Java's PartialUpdateMergeFunction without sequence groups."""
    row, filled, met_insert, deleted, sequence = dict.fromkeys(values), False, False, False, 0
    for record in records:
        deleted = False
        if record["_VALUE_KIND"] % 2:
            if not filled:
                row = {name: record[name] for name in values}
                filled = True
            if ignore_delete:
                continue
            sequence = record["_SEQUENCE_NUMBER"]
            if not remove_on_delete:
                raise ModelError("retract")
            if record["_VALUE_KIND"] == DELETE:
                deleted = True
                row = {name: record[name] for name in values}
            continue
        sequence = record["_SEQUENCE_NUMBER"]
        row.update({name: record[name] for name in values if record[name] is not None})
        met_insert = filled = True
    kind = DELETE if deleted or not met_insert else INSERT
    return {**records[-1], **row, "_SEQUENCE_NUMBER": sequence, "_VALUE_KIND": kind}


def aggregate(records, *, functions, remove_on_delete=False):
    """Java's AggregateMergeFunction; functions: name of a column -> (fold, ignore_retract)."""
    row, deleted = dict.fromkeys(functions), False
    started = dict.fromkeys(functions, False)
    for record in records:
        deleted = remove_on_delete and record["_VALUE_KIND"] == DELETE
        if deleted:
            row = {name: record[name] for name in functions}
            continue
        for name, (fold, ignore_retract) in functions.items():
            retracts = record["_VALUE_KIND"] % 2 == 1
            if retracts and ignore_retract:
                continue
            row[name], started[name] = fold(row[name], record[name], retracts, started[name])
    return {**records[-1], **row, "_VALUE_KIND": DELETE if deleted else INSERT}


def fold_of(function, kind):
    """One aggregate function: (held, given, retracts, started) -> (result, started)."""

    def fold(held, given, retracts, started):
        if function == "primary-key":
            return given, started
        if function == "last_value":
            return (None if retracts else given), started
        if function == "last_non_null_value":
            if retracts:
                return (None if given is not None else held), started
            return (held if given is None else given), started
        if function == "sum" and retracts:
            return _retract_sum(held, given, kind), started
        if retracts:
            raise ModelError(function)
        if function == "first_value":
            return (held, True) if started else (given, True)
        if function == "first_non_null_value":
            return (given, True) if not started and given is not None else (held, started)
        return _fold_two(function, held, given, kind), started

    return fold


def _retract_sum(held, given, kind):
    if held is None or given is None:
        return (None if given is None else _fitting(-given, kind)) if held is None else held
    return _fitting(EXACT.subtract(held, given) if isinstance(held, Decimal) else held - given, kind)


def _fold_two(function, held, given, kind):
    if held is None or given is None:
        return given if held is None else held
    match function:
        case "sum":
            return _fitting(EXACT.add(held, given) if isinstance(held, Decimal) else held + given, kind)
        case "product":
            if isinstance(held, Decimal):
                exact = EXACT.multiply(held, given)
                return _fitting(exact.quantize(Decimal(1).scaleb(-kind[1]), ROUND_HALF_UP, EXACT), kind)
            return _fitting(held * given, kind)
        case "max":
            return given if java_key(held) < java_key(given) else held
        case "min":
            return held if java_key(held) < java_key(given) else given
        case "bool_and":
            return held and given
        case "bool_or":
            return held or given
    raise AssertionError(function)


def _fitting(value, kind):
    """Integers have bits, decimals digits."""
    if isinstance(value, int) and not -(2 ** (kind - 1)) <= value < 2 ** (kind - 1):
        raise ModelError("overflow")
    if isinstance(value, Decimal) and EXACT.abs(EXACT.scaleb(value, kind[1])) >= 10 ** kind[0]:
        raise ModelError("overflow")
    return EXACT.add(value, 0) if isinstance(value, Decimal) else value  # a stored decimal has no negative zero


def list_aggregate(delimiter, *, distinct):
    """listagg: (held, given, retracts, started) -> (result, started)."""

    def fold(held, given, retracts, started):
        if retracts:
            raise ModelError("listagg")
        if given is None or not given.strip(" \t"):
            return held, started
        if held is None or not held.strip(" \t"):
            return given, started
        if not distinct:
            return held + delimiter + given, started
        seen, found = held.split(delimiter), [held]
        for token in given.split(delimiter):
            if token.strip(" \t") and token not in seen:
                seen.append(token)
                found.append(token)
        return delimiter.join(found), started

    return fold
