"""A walk through Avro records finds what a reader would stumble over, and nothing else."""

import io
import json
import os

import fastavro
import pytest
from fastavro.schema import UnknownType
from hypothesis import HealthCheck, assume, given, reject, settings
from hypothesis import strategies as st

from packstone.rewrite.formats.avro_blocks import check_records, walk_lanes

SOAK = bool(os.environ.get("PACKSTONE_SOAK"))
SLOW = [HealthCheck.too_slow, HealthCheck.filter_too_much]
PRIMITIVES = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")


@st.composite
def schemas(draw, depth=0, names=None):
    """Any schema: its named types have different names, and refer to each other."""
    names = [] if names is None else names
    kinds = ["simple", "enum", "fixed", "logical"] + (["array", "map", "union", "record"] if depth < 3 else [])
    kind = draw(st.sampled_from(kinds if depth else ["record", "union", "array"]))
    if kind == "simple":
        known = [name for name, is_done in names if is_done]
        return draw(st.sampled_from([*PRIMITIVES, *known]))
    if kind == "logical":
        return {"type": "long", "logicalType": "ours"}
    inner = schemas(depth=depth + 1, names=names)
    if kind == "array":
        return {"type": "array", "items": draw(inner)}
    if kind == "map":
        return {"type": "map", "values": draw(inner)}
    if kind == "union":
        branches = draw(st.lists(inner, min_size=1, max_size=3))
        return _one_of_each(one for one in branches if not isinstance(one, list)) or ["null"]
    name = f"n{len(names)}"
    names.append((name, False))
    if kind == "enum":
        made = {"type": "enum", "name": name, "symbols": [f"S{at}" for at in range(draw(st.integers(1, 70)))]}
    elif kind == "fixed":
        made = {"type": "fixed", "name": name, "size": draw(st.integers(0, 5))}
    else:
        fields = draw(st.lists(inner, max_size=4))
        listed = [{"name": f"f{at}", "type": one} for at, one in enumerate(fields)]
        if draw(st.booleans()):
            listed.append({"name": "again", "type": ["null", name]})
        made = {"type": "record", "name": name, "fields": listed}
    names[next(at for at, one in enumerate(names) if one[0] == name)] = (name, True)
    return made


def _one_of_each(branches):
    """A union holds one branch of a kind."""
    found = {}
    for one in branches:
        found.setdefault(one if isinstance(one, str) else one["type"], one)
    return list(found.values())


def number(value):
    """Avro's number."""
    rest, out = (value << 1) ^ (value >> 63), bytearray()
    while rest > 127:
        out.append(rest & 127 | 128)
        rest >>= 7
    return bytes([*out, rest])


def value_of(draw, schema, named, depth=0):
    """A random value as its type writes it."""
    if isinstance(schema, list):
        at = draw(st.integers(0, len(schema) - 1 if depth < 6 else 0))
        return number(at) + value_of(draw, schema[at], named, depth + 1)
    if isinstance(schema, str) and schema in named:
        return value_of(draw, named[schema], named, depth)
    kind = schema if isinstance(schema, str) else schema["type"]
    match kind:
        case "int" | "long":
            bits = 31 if kind == "int" else 63
            return number(draw(st.integers(-(2**bits), 2**bits - 1)))
        case "bytes" | "string":
            text = draw(st.text(max_size=80).map(str.encode) if kind == "string" else st.binary(max_size=80))
            return number(len(text)) + text
        case "enum":
            return number(draw(st.integers(0, len(schema["symbols"]) - 1)))
        case "record":
            return b"".join(value_of(draw, field["type"], named, depth + 1) for field in schema["fields"])
        case "array" | "map":
            return items_of(draw, schema, named, depth)
    sizes = {"null": 0, "float": 4, "double": 8, "fixed": schema["size"] if kind == "fixed" else 0}
    if kind == "boolean":
        return bytes([draw(st.integers(0, 1))])
    return draw(st.binary(min_size=sizes[kind], max_size=sizes[kind]))


def items_of(draw, schema, named, depth):
    """The items of an array or map, in parts, of which some state their size."""
    out = b""
    for _ in range(draw(st.integers(0, 2)) if depth < 6 else 0):
        count = draw(st.integers(1, 3))
        is_map = schema["type"] == "map"
        inner = schema["values" if is_map else "items"]
        keys = [value_of(draw, "string", named) if is_map else b"" for _ in range(count)]
        items = b"".join(key + value_of(draw, inner, named, depth + 1) for key in keys)
        out += (number(-count) + number(len(items)) if draw(st.booleans()) else number(count)) + items
    return out + b"\0"


def named_in(schema):
    """The named types of a schema."""
    if isinstance(schema, list):
        return {name: one for branch in schema for name, one in named_in(branch).items()}
    if isinstance(schema, str):
        return {}
    inner = [schema.get("items", "null"), schema.get("values", "null"), *(f["type"] for f in schema.get("fields", ()))]
    return {**({schema["name"]: schema} if "name" in schema else {}), **named_in(inner)}


@st.composite
def blocks(draw):
    """A schema, and the body of a block of random records."""
    schema = draw(schemas())
    try:
        fastavro.parse_schema(json.loads(json.dumps(schema)))
    except UnknownType:
        reject()  # the branch that defined it was left out
    count = draw(st.integers(0, 4))
    named = named_in(schema)
    return schema, count, b"".join(value_of(draw, schema, named) for _ in range(count))


def read_by_fastavro(schema, body, count):
    """Read all records; where they end."""
    source, parsed = io.BytesIO(body), fastavro.parse_schema(json.loads(json.dumps(schema)))
    for _ in range(count):
        fastavro.schemaless_reader(source, parsed, None)
    return source.tell()


@given(block=blocks())
@settings(max_examples=2_500 if SOAK else 200, suppress_health_check=SLOW)
def test_whatever_is_sound_is_accepted(block):
    """Every schema and every record that fastavro reads, with and without a look at strings."""
    schema, count, body = block
    assert read_by_fastavro(schema, body, count) == len(body)
    for text in (True, False):
        check_records(json.dumps(schema).encode(), body, records=count, text=text)


@given(block=blocks(), data=st.data())
@settings(max_examples=2_500 if SOAK else 400, suppress_health_check=SLOW)
def test_what_is_accepted_is_read_by_fastavro(block, data):
    """Bytes changed, lost or added anywhere: if the walk ends well, fastavro reads all records to the last byte."""
    schema, count, body = block
    assume(body)
    at = data.draw(st.integers(0, len(body) - 1))
    harmed = body[:at] + data.draw(st.binary(max_size=3)) + body[at + data.draw(st.integers(0, 3)) :]
    try:
        check_records(json.dumps(schema).encode(), harmed, records=count, text=True)
    except ValueError:
        return
    assert read_by_fastavro(schema, harmed, count) == len(harmed)


def check_together(schema, bodies, *, text=True):
    """Check blocks (body, records) as a merge does: together, and what is left one by one; the number done together."""
    done = walk_lanes(schema, bodies, text=text)
    for (body, count), (at, walked) in zip(bodies, done, strict=True):
        check_records(schema, body, records=count, text=text, at=at, walked=walked)
    return sum(walked for _, walked in done)


@given(block=blocks(), data=st.data())
@settings(max_examples=2_500 if SOAK else 200, suppress_health_check=SLOW)
def test_blocks_walked_together_are_accepted_as_they_are_one_by_one(block, data):
    """Blocks of all schemas, of different lengths, one of them damaged: the answer is that of a walk through each."""
    schema, count, body = block
    encoded, named = json.dumps(schema).encode(), named_in(schema)
    other = b"".join(value_of(data.draw, schema, named) for _ in range(2 * count))
    bodies = [(body, count), (other, 2 * count), *[(body, count), (other + body, 3 * count)] * 40]
    check_together(encoded, bodies)
    at, cut = data.draw(st.integers(0, len(body))), data.draw(st.integers(0, 3))
    harmed = body[:at] + data.draw(st.binary(max_size=3)) + body[at + cut :]
    where = data.draw(st.integers(0, len(bodies)))
    try:
        check_records(encoded, harmed, records=count, text=True)
    except ValueError:
        with pytest.raises(ValueError):
            check_together(encoded, [*bodies[:where], (harmed, count), *bodies[where:]])
    else:
        check_together(encoded, [*bodies[:where], (harmed, count), *bodies[where:]])


def test_usual_schemas_are_walked_together():
    """Long numbers, texts, arrays that state their size, maps and enums leave nothing to the walk record by record."""
    value = {"type": "map", "values": ["null", {"type": "enum", "name": "e", "symbols": ["A", "B"]}]}
    schema = record(
        ["long", "null"], "string", {"type": "array", "items": ["string", "null"]}, value, "double", "bytes"
    )
    body = (
        number(0) + number(-(2**63)) + number(300) + "é".encode() * 150
        + number(-2) + number(5) + number(0) + number(2) + b"ab" + number(1) + number(0)
        + number(1) + number(1) + b"k" + number(1) + number(1) + number(0)
        + bytes(8) + number(0)
    )  # fmt: skip
    assert check_together(schema, [(body * 3, 3)] * 80) == 3 * 80
    assert check_together(schema, [(body * at, at) for at in range(200)]) > 0.6 * sum(range(200))
    assert check_together(schema, [(body * 3, 3)] * 20) == 0


def record(*types):
    """The schema of a record with these fields."""
    fields = [{"name": f"f{at}", "type": one} for at, one in enumerate(types)]
    return json.dumps({"type": "record", "name": "r", "fields": fields}).encode()


ENUM = {"type": "enum", "name": "e", "symbols": ["A", "B"]}
STRINGS = {"type": "array", "items": "string"}
NULLS = {"type": "array", "items": "null"}
DAMAGED = {
    "a branch that does not exist": (record(["null", "string"]), 1, b"\x04\x02a", "no such branch"),
    "a negative branch": (record(["null", "string"]), 1, b"\x01", "no such branch"),
    "a symbol that does not exist": (record(ENUM), 1, b"\x04", "no such symbol"),
    "a boolean of 2": (record("boolean"), 1, b"\x02", "boolean"),
    "a long of 11 bytes": (record("long"), 1, b"\x80" * 10 + b"\x01", "longer than 10"),
    "an int of 6 bytes": (record("int"), 1, b"\x80" * 5 + b"\x01", "longer than 5"),
    "a length of 11 bytes": (record("string"), 1, b"\x82" * 10 + b"\x01a", "longer than 10"),
    "a negative length": (record("string"), 1, b"\x01", "a length is wrong"),
    "a length beyond the end": (record("string"), 1, b"\x06ab", "end at byte"),
    "a long length beyond the end": (record("bytes"), 1, b"\xfe\xff\xff\xff\x0f", "a length is wrong"),
    "text that is not UTF-8": (record("string", "string"), 1, b"\x02\xc3\x02\xa9", "not UTF-8"),
    "a key that is not UTF-8": (record({"type": "map", "values": "int"}), 1, b"\x02\x02\xff\x02\x00", "not UTF-8"),
    "an item that is not UTF-8": (record(STRINGS), 1, b"\x02\x02\xff\x00", "not UTF-8"),
    "a double cut off": (record("double"), 1, bytes(7), "end at byte 8 of 7"),
    "a record too few": (record("long"), 3, b"\x02\x02", "cannot hold 3"),
    "a record too many": (record("long"), 1, b"\x02\x02", "end at byte 1 of 2"),
    "more items than bytes": (record(STRINGS), 1, b"\xfe\xff\xff\xff\xff\xff\xff\xff\x7f\x00", "cannot hold that many"),
    "a wrong size of items": (record(STRINGS), 1, b"\x01\x06\x02a\x00", "not as long as it states"),
    "items without an end": (record(STRINGS), 1, b"\x02\x02a", "cut off"),
    "bytes behind nothing": (record("null"), 2**40, b"\x00", "end at byte 0 of 1"),
    "no schema": (b"{", 1, b"\x02", "schema cannot be read"),
    "a type that is not defined": (record("nobody"), 1, b"\x02", "not defined"),
    "a schema nested too deeply": (b"[" * 100_000, 1, b"\x02", "nested too deeply"),
    "records without an end": (
        json.dumps({"type": "record", "name": "r", "fields": [{"name": "r", "type": "r"}]}).encode(),
        1,
        b"\x02",
        "nested too deeply",
    ),
}


@pytest.mark.parametrize("name", DAMAGED)
def test_damage_is_named(name):
    """Each kind of damage is found and described."""
    schema, count, body, why = DAMAGED[name]
    with pytest.raises(ValueError, match=why):
        check_records(schema, body, records=count, text=True)
    with pytest.raises(ValueError, match=why):
        check_together(schema, [(body, count)] * 100)


@pytest.mark.parametrize("body", [b"\x02\xe9", b"\x04\xc3\x28"])
def test_latin1_on_purpose(body):
    """Strings that are not UTF-8 pass if nobody asks for it."""
    check_records(record("string"), body, records=1, text=False)
    with pytest.raises(ValueError, match="--set accept-invalid-text=true"):
        check_records(record("string"), body, records=1, text=True)


def test_values_of_no_bytes_take_no_time():
    """Billions of nulls, in an array or as records, are counted and not walked through."""
    check_records(record("null"), b"", records=2**40, text=True)
    check_records(record(NULLS), b"\xfe\xff\xff\xff\xff\xff\x7f\x00", records=1, text=True)


def test_sizes_that_arrays_state():
    """An array may state the size of its items behind a negative count; a true one is accepted."""
    check_records(record(STRINGS), b"\x03\x08\x02a\x02b\x00", records=1, text=True)


def test_names_in_namespaces():
    """A type is found by its full name, by its short one in the same namespace, and by one without a namespace."""
    inner = {"type": "fixed", "name": "f", "size": 2}
    fields = [{"name": "a", "type": inner}, {"name": "b", "type": "f"}, {"name": "c", "type": "x.y.f"}]
    schema = {"type": "record", "name": "r", "namespace": "x.y", "fields": fields}
    check_records(json.dumps(schema).encode(), bytes(6), records=1, text=True)
    with pytest.raises(ValueError, match="end at byte"):
        check_records(json.dumps(schema).encode(), bytes(5), records=1, text=True)
    other = {"type": "record", "name": "z.r", "fields": [{"name": "a", "type": inner}, {"name": "b", "type": "z.f"}]}
    check_records(json.dumps(other).encode(), bytes(4), records=1, text=True)
