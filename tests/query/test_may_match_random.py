"""No matching row is ever dropped and no row ever passed untested that does not match, whatever the data."""

import numpy as np
import pyarrow as pa
from blocklet_model import own_index, scenes, slow_index, truth
from hypothesis import given, settings
from hypothesis import strategies as st

from packstone.query.filter.may_match import may_match, must_match


def check(node, index, blocklets):
    """Compare with what every single row says."""
    may, must = may_match(node, index), must_match(node, index)
    assert may.dtype == must.dtype == np.bool_
    for at, rows in enumerate(blocklets):
        truths = [truth(node, row) for row in rows]
        assert may[at] or True not in truths, (str(node), rows)
        assert not must[at] or set(truths) <= {True}, (str(node), rows)
    return may, must


@settings(max_examples=200, deadline=None)
@given(scene=scenes(), size=st.sampled_from([1, 2, 3, 256]))
def test_pruning_by_a_slow_index_is_sound(scene, size):
    """The index is computed by hand, with strings cut anywhere."""
    blocklets, nodes = scene
    index = slow_index(blocklets, size=size)
    for node in nodes:
        check(node, index, blocklets)


@settings(max_examples=60, deadline=None)
@given(scene=scenes())
def test_pruning_by_the_index_of_a_load_is_sound_and_the_same(scene):
    """The index comes from a Parquet footer as a load makes it, and prunes what the one by hand prunes."""
    blocklets, nodes = scene
    own, slow = own_index(blocklets), slow_index(blocklets)
    for node in nodes:
        answers = check(node, own, blocklets)
        expected = check(node, slow, blocklets)
        assert [answer.tolist() for answer in answers] == [answer.tolist() for answer in expected]


@settings(max_examples=60, deadline=None)
@given(scene=scenes(), data=st.data())
def test_facts_that_are_missing_never_hurt(scene, data):
    """Columns of the index that are not there, or null here and there, only make it prune less."""
    blocklets, (node, *_) = scene
    index = slow_index(blocklets, size=2)
    all_may, all_must = check(node, index, blocklets)
    gone = data.draw(st.sets(st.sampled_from(index.column_names)))
    index = index.drop_columns(sorted(gone))
    for at, name in enumerate(index.column_names):
        if data.draw(st.integers(0, 5)) == 0:
            values = [None if data.draw(st.booleans()) else value for value in index.column(at).to_pylist()]
            index = index.set_column(at, name, pa.array(values, index.schema.field(at).type))
    may, must = check(node, index, blocklets)
    assert (may >= all_may).all()
    assert (must <= all_must).all()


@settings(max_examples=40, deadline=None)
@given(scene=scenes(), data=st.data())
def test_some_positions_answer_as_all_do(scene, data):
    """To ask for some blocklets, of an index in chunks, gives what asking for all of it gives."""
    blocklets, (node, *_) = scene
    index = slow_index(blocklets)
    at = np.array(data.draw(st.lists(st.integers(0, len(blocklets) - 1), unique=True)), dtype=np.int64)
    chunks = pa.concat_tables([index.slice(row, 1) for row in range(len(blocklets))])
    for ask in (may_match, must_match):
        assert ask(node, chunks, at=at).tolist() == ask(node, index)[at].tolist()
