"""The cache: each key loaded once, never over its limit, the least recently used out first, figures exact."""

import random
import threading
from collections import Counter, OrderedDict
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st
from patience import patient

from packstone.errors import InvalidInputError
from packstone.query.scan.caches import LruCache

WAIT_SECONDS = patient(30)


def get(cache, key, size=1):
    """Ask for a key whose value is itself and has this size."""
    return cache.get_or_load(key, lambda: key, lambda _: size)


def held(cache, keys):
    """Which keys are there, found without changing the order."""
    return [key for key in keys if key in cache._entries]


def test_a_value_is_loaded_once_and_then_hit():
    """The second call does not load."""
    cache = LruCache(10)
    loads = []
    for _ in range(3):
        assert cache.get_or_load("a", lambda: loads.append(1) or "value", len) == "value"
    assert len(loads) == 1
    stats = cache.stats()
    assert (stats.hits, stats.misses, stats.loads, stats.bytes, stats.entries) == (2, 1, 1, 5, 1)


def test_peek_does_not_count_as_a_use():
    """Neither a hit nor a reason to keep it longer."""
    cache = LruCache(2)
    for key in "ab":
        cache.get_or_load(key, lambda: 1, lambda _: 1)
    assert "a" in cache
    cache.get_or_load("c", lambda: 1, lambda _: 1)
    assert ["a" in cache, "b" in cache, "c" in cache] == [False, True, True]
    assert cache.stats().hits == 0


def test_none_is_a_value_too():
    """A load that returns None is kept like any other."""
    cache = LruCache(10)
    assert [cache.get_or_load("a", lambda: None, lambda _: 1) for _ in range(2)] == [None, None]
    assert cache.stats().loads == 1


def test_the_least_recently_used_goes_first():
    """A hit makes an entry young again; eviction takes from the old end, as many as needed and no more."""
    cache = LruCache(4)
    for key in "abcd":
        get(cache, key)
    get(cache, "a")
    get(cache, "e", size=2)
    assert held(cache, "abcde") == ["a", "d", "e"]
    assert cache.stats().evictions == 2
    get(cache, "f")
    assert held(cache, "adef") == ["a", "e", "f"]


def test_what_is_larger_than_the_limit_is_handed_out_and_evicts_nothing():
    """A value over the limit is not kept, and what was there stays."""
    cache = LruCache(4)
    get(cache, "a")
    assert get(cache, "big", size=5) == "big"
    assert get(cache, "big", size=5) == "big"
    assert held(cache, ["a", "big"]) == ["a"]
    stats = cache.stats()
    assert (stats.refused, stats.loads, stats.evictions, stats.bytes) == (2, 3, 0, 1)


def test_a_value_of_exactly_the_limit_fits():
    """The limit is what may be held, not the first size too many."""
    cache = LruCache(4)
    get(cache, "a", size=4)
    assert (cache.stats().bytes, cache.stats().refused) == (4, 0)


def test_a_limit_of_zero_keeps_nothing():
    """With no room every value is handed out uncached."""
    cache = LruCache(0)
    assert [get(cache, "a"), get(cache, "a")] == ["a", "a"]
    assert (cache.stats().loads, cache.stats().entries) == (2, 0)


def test_a_failing_load_is_not_kept():
    """The error is raised, nothing is cached, the next call loads again."""
    cache = LruCache(10)
    with pytest.raises(ZeroDivisionError):
        cache.get_or_load("a", lambda: 1 // 0, lambda _: 1)
    assert get(cache, "a") == "a"
    stats = cache.stats()
    assert (stats.loads, stats.failures, stats.misses, stats.entries) == (2, 1, 2, 1)


@pytest.mark.parametrize("size_of", [lambda _: 1 // 0, lambda _: -1])
def test_a_failing_size_is_a_failing_load(size_of):
    """A value whose size is not known is not kept, and its key is not blocked."""
    cache = LruCache(10)
    with pytest.raises((ZeroDivisionError, InvalidInputError)):
        cache.get_or_load("a", lambda: "a", size_of)
    assert get(cache, "a") == "a"


def test_a_negative_limit_is_refused():
    """The error says what to give."""
    with pytest.raises(InvalidInputError, match="give 0 or more"):
        LruCache(-1)


def test_clear_forgets_and_evicts_nothing():
    """After clear the cache is empty; its counters go on."""
    cache = LruCache(10)
    get(cache, "a")
    cache.clear()
    stats = cache.stats()
    assert (stats.entries, stats.bytes, stats.evictions, stats.loads) == (0, 0, 0, 1)
    get(cache, "a")
    assert cache.stats().loads == 2


def test_a_load_may_ask_for_another_key():
    """No lock is held while loading."""
    cache = LruCache(10)
    assert cache.get_or_load("a", lambda: get(cache, "b") + "!", lambda _: 1) == "b!"
    assert held(cache, "ab") == ["a", "b"]


def test_a_load_that_asks_for_itself_is_reported():
    """Instead of waiting for itself for ever."""
    cache = LruCache(10)
    with pytest.raises(RuntimeError, match="requests 'a' itself"):
        cache.get_or_load("a", lambda: get(cache, "a"), lambda _: 1)


def test_stats_say_themselves_in_one_line():
    """The form in which `query --explain` shows a cache."""
    cache = LruCache(10)
    get(cache, "a")
    assert str(cache.stats()) == "1 entries 1/10B hits=0 misses=1 loads=1 failures=0 evictions=0 refused=0"


class Gate:
    """A load that says when it began and waits until it may go on."""

    def __init__(self, outcome):
        self.began, self.may_end, self.outcome, self.calls = threading.Event(), threading.Event(), outcome, 0

    def __call__(self):
        """Load, when the test says so."""
        self.calls += 1
        self.began.set()
        assert self.may_end.wait(WAIT_SECONDS)
        if isinstance(self.outcome, BaseException):
            raise self.outcome
        return self.outcome


def wait_for_misses(cache, count):
    """Wait until N calls have missed, so that they wait or are about to."""
    pause = threading.Event()
    for _ in range(WAIT_SECONDS * 1000):
        if cache.stats().misses == count:
            return
        pause.wait(0.001)
    raise AssertionError(cache.stats())


def test_many_threads_that_want_one_key_load_it_once():
    """Sixteen threads ask while the first one loads: one load, all get its value."""
    cache, gate = LruCache(10), Gate("value")
    with ThreadPoolExecutor(16) as pool:
        asked = [pool.submit(cache.get_or_load, "a", gate, len) for _ in range(16)]
        wait_for_misses(cache, 16)
        gate.may_end.set()
        assert {future.result(WAIT_SECONDS) for future in asked} == {"value"}
    stats = cache.stats()
    assert (gate.calls, stats.loads, stats.misses, stats.hits) == (1, 1, 16, 0)


def test_waiters_of_a_value_too_large_to_keep_get_it_too():
    """They do not load it again one after the other."""
    cache, gate = LruCache(1), Gate("value")
    with ThreadPoolExecutor(8) as pool:
        asked = [pool.submit(cache.get_or_load, "a", gate, len) for _ in range(8)]
        wait_for_misses(cache, 8)
        gate.may_end.set()
        assert {future.result(WAIT_SECONDS) for future in asked} == {"value"}
    assert (gate.calls, cache.stats().refused, cache.stats().entries) == (1, 1, 0)


def test_a_failing_load_tells_all_waiters():
    """Each thread that waited raises the error; none hangs, none gets a value."""
    cache, gate = LruCache(10), Gate(OSError("gone"))
    with ThreadPoolExecutor(8) as pool:
        asked = [pool.submit(cache.get_or_load, "a", gate, len) for _ in range(8)]
        wait_for_misses(cache, 8)
        gate.may_end.set()
        assert {str(future.exception(WAIT_SECONDS)) for future in asked} == {"gone"}
    assert (gate.calls, cache.stats().failures, cache.stats().entries) == (1, 1, 0)
    assert get(cache, "a") == "a"


def test_an_interrupted_load_is_taken_over_by_a_waiter():
    """Ctrl-C in one thread does not stop the others, and each call is counted once."""
    cache, gate = LruCache(10), Gate(KeyboardInterrupt())
    stopped = []

    def interrupted():
        try:
            cache.get_or_load("a", gate, len)
        except KeyboardInterrupt:
            stopped.append(True)

    first = threading.Thread(target=interrupted)
    first.start()
    assert gate.began.wait(WAIT_SECONDS)
    with ThreadPoolExecutor(4) as pool:
        asked = [pool.submit(get, cache, "a") for _ in range(4)]
        wait_for_misses(cache, 5)
        gate.may_end.set()
        assert {future.result(WAIT_SECONDS) for future in asked} == {"a"}
    first.join(WAIT_SECONDS)
    stats = cache.stats()
    assert stopped
    assert (stats.loads, stats.failures, stats.misses + stats.hits) == (2, 1, 5)


def test_nobody_waits_for_the_load_of_another_key():
    """While one key is being loaded, other keys are loaded and hit, stats are reported, and clear clears."""
    cache, gate = LruCache(10), Gate("slow")
    with ThreadPoolExecutor(1) as pool:
        slow = pool.submit(cache.get_or_load, "slow", gate, len)
        assert gate.began.wait(WAIT_SECONDS)
        assert [get(cache, "b"), get(cache, "b"), get(cache, "c")] == ["b", "b", "c"]
        assert cache.stats().hits == 1
        cache.clear()
        assert not slow.done()
        gate.may_end.set()
        assert slow.result(WAIT_SECONDS) == "slow"
    assert held(cache, ["slow", "b"]) == ["slow"]


@given(
    limit=st.integers(0, 12),
    calls=st.lists(st.tuples(st.integers(0, 6), st.integers(0, 14), st.booleans()), max_size=60),
)
def test_one_thread_sees_what_a_plain_model_says(limit, calls):
    """Order, size and every figure after every call are those of a dictionary kept by hand."""
    cache, model, count = LruCache(limit), OrderedDict(), Counter()

    def load(key, fails):
        if fails:
            raise OSError
        return key

    for key, size, fails in calls:
        if key in model:
            model.move_to_end(key)
            count["hits"] += 1
        else:
            count.update(("misses", "loads"))
            if fails:
                count["failures"] += 1
            elif size > limit:
                count["refused"] += 1
            else:
                while sum(model.values()) + size > limit:
                    model.popitem(last=False)
                    count["evictions"] += 1
                model[key] = size
        try:
            assert cache.get_or_load(key, lambda: load(key, fails), lambda _: size) == key  # noqa: B023
        except OSError:
            assert fails
        stats = cache.stats()
        assert list(cache._entries) == list(model)
        assert (stats.bytes, stats.entries) == (sum(model.values()), len(model))
        assert all(
            getattr(stats, name) == count[name]
            for name in ("hits", "misses", "loads", "failures", "refused", "evictions")
        )


class Watched(OrderedDict):
    """Entries that note the largest sum of sizes that was ever there, under the cache's lock."""

    largest = 0

    def __setitem__(self, key, entry):
        super().__setitem__(key, entry)
        self.largest = max(self.largest, sum(size for _, size in self.values()))


class Storm:
    """Threads that ask for random keys; loads that fail now and then and notice when they run twice at once."""

    def __init__(self, cache):
        self.cache, self.guard = cache, threading.Lock()
        self.loading, self.outcomes = Counter(), Counter()
        self.doubled, self.wrong = [], []

    def load(self, key, dice):
        """Make the value of a key, slowly at times."""
        with self.guard:
            self.loading[key] += 1
            self.doubled.extend([key] * (self.loading[key] > 1))
        if dice.random() < 0.3:
            threading.Event().wait(0.0005)
        with self.guard:
            self.loading[key] -= 1
        if dice.random() < 0.1:
            raise OSError(key)
        return key * 10

    def ask(self, seed):
        """Ask 600 times, small keys more often."""
        dice, seen = random.Random(seed), Counter()
        for _ in range(600):
            key = min(dice.randrange(12), dice.randrange(12))
            try:
                value = self.cache.get_or_load(key, lambda: self.load(key, dice), lambda value: value // 4)  # noqa: B023
                self.wrong.extend([key] * (value != key * 10))
                seen["value"] += 1
            except OSError:
                seen["error"] += 1
        with self.guard:
            self.outcomes.update(seen)


def test_a_storm_of_threads_keeps_every_promise():
    """Eight threads, a limit far too small: right values, no key loaded twice at once, never over, figures add up."""
    cache, limit = LruCache(20), 20
    cache._entries = watched = Watched()
    storm = Storm(cache)
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(storm.ask, range(8)))
    stats = cache.stats()
    assert not storm.doubled
    assert not storm.wrong
    assert watched.largest <= limit
    assert stats.bytes == sum(size for _, size in watched.values()) <= limit
    assert stats.hits + stats.misses == 8 * 600 == storm.outcomes.total()
    assert stats.entries == stats.loads - stats.failures - stats.refused - stats.evictions
    assert stats.evictions > 0
    assert stats.refused > 0
    assert stats.failures <= storm.outcomes["error"]
