"""A resolved filter as text, so that it travels in a split: executors need no SQL parser, and no literal is read twice.

A node is a JSON list, its kind first; values are Arrow's own bytes, so they keep their exact type.
"""

from __future__ import annotations

import base64
import json
from typing import Any, assert_never

import pyarrow as pa

from packstone.errors import InvalidInputError
from packstone.pruning.expression import (
    And,
    Compare,
    Expression,
    IsNull,
    Literal,
    Not,
    OneOf,
    Op,
    Or,
    StartsWith,
    Truth,
    Unknown,
    ValueSet,
)


def pack_filter(expression: Expression) -> str:
    """Write a resolved filter."""
    return json.dumps(_to_plain(expression), separators=(",", ":"))


def unpack_filter(text: str) -> Expression:
    """Read it back."""
    return _from_plain(json.loads(text))


def _to_plain(node: Expression) -> list[Any]:
    match node:
        case And() | Or():
            return ["and" if isinstance(node, And) else "or", *map(_to_plain, node.parts)]
        case Not():
            return ["not", _to_plain(node.part)]
        case Truth():
            return ["truth", node.value]
        case Unknown():
            return ["unknown", node.text, *node.columns]
        case IsNull():
            return ["null", node.column, node.negated]
        case Compare():
            return ["compare", node.column, str(node.op), _pack(_scalars(node, node.literal))]
        case StartsWith():
            return ["prefix", node.column, node.negated, _pack(_scalars(node, node.prefix))]
        case OneOf():
            if not isinstance(node.literals, ValueSet):
                raise _unresolved(node)
            return ["in", node.column, node.negated, _pack(node.literals.array)]
        case _:
            assert_never(node)


def _from_plain(plain: list[Any]) -> Expression:
    kind, *rest = plain
    match kind:
        case "and":
            return And(parts=tuple(map(_from_plain, rest)))
        case "or":
            return Or(parts=tuple(map(_from_plain, rest)))
        case "not":
            return Not(part=_from_plain(rest[0]))
        case "truth":
            return Truth(value=rest[0])
        case "unknown":
            return Unknown(text=rest[0], columns=tuple(rest[1:]))
        case "null":
            return IsNull(column=rest[0], negated=rest[1])
        case "compare":
            return Compare(column=rest[0], op=Op(rest[1]), literal=_unpack(rest[2])[0])
        case "prefix":
            return StartsWith(column=rest[0], prefix=_unpack(rest[2])[0], negated=rest[1])
        case "in":
            return OneOf(column=rest[0], literals=ValueSet(array=_unpack(rest[2])), negated=rest[1])
    raise InvalidInputError(f"A filter of a newer packstone has a {kind!r}; use the same version on all machines.")


def _scalars(node: Expression, value: Literal | pa.Scalar) -> pa.Array:
    if isinstance(value, Literal):
        raise _unresolved(node)
    return pa.array([value], type=value.type)


def _unresolved(node: Expression) -> InvalidInputError:
    return InvalidInputError(f"The test {str(node)!r} must be resolved before it can travel.")


def _pack(values: pa.Array) -> str:
    batch = pa.record_batch([values], names=["v"])
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return base64.b64encode(sink.getvalue().to_pybytes()).decode()


def _unpack(text: str) -> pa.Array:
    with pa.ipc.open_stream(pa.py_buffer(base64.b64decode(text))) as reader:
        return reader.read_next_batch().column(0)
