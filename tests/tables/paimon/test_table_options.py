"""Options: Paimon's names, syntax and defaults."""

import pytest

from packstone.errors import InvalidInputError
from packstone.tables.paimon.format.table_options import TableOptions, parse_duration_ms, parse_memory

MB = 1024 * 1024


def of(options, *, is_primary_key=True):
    """Options of a dict."""
    return TableOptions.parse(options.items(), is_primary_key=is_primary_key)


def test_defaults_are_paimon_s():
    """A table that sets nothing gets what Java would use (the notes' appendix)."""
    options = of({})
    assert (options.compaction_trigger, options.stop_trigger, options.num_levels) == (5, 8, 6)
    assert (options.max_size_amplification_pct, options.size_ratio_pct) == (200, 1)
    assert options.target_file_bytes == 128 * MB
    assert of({}, is_primary_key=False).target_file_bytes == 256 * MB
    assert options.small_file_bytes == int(128 * MB * 0.7)
    assert (options.file_format, options.file_compression, options.zstd_level) == ("parquet", "zstd", 1)
    assert (options.manifest_target_bytes, options.manifest_full_threshold_bytes) == (8 * MB, 16 * MB)
    assert (options.snapshot_retained_min, options.snapshot_time_retained_ms) == (10, 3_600_000)
    assert (options.stats_mode, options.stats_dense_store) == ("truncate(16)", True)
    assert (options.optimization_interval_ms, options.record_expire_ms) == (None, None)


def test_what_depends_on_the_trigger_follows_it():
    """Levels and stop trigger move with the trigger; the stop trigger is never below it."""
    options = of({"num-sorted-run.compaction-trigger": "7"})
    assert (options.num_levels, options.stop_trigger) == (8, 10)
    low = of({"num-sorted-run.compaction-trigger": "7", "num-sorted-run.stop-trigger": "3", "num-levels": "4"})
    assert (low.stop_trigger, low.num_levels) == (7, 4)


@pytest.mark.parametrize("key", ["ignore-delete", "first-row.ignore-delete", "partial-update.ignore-delete"])
def test_old_names_of_an_option_still_count(key):
    """An option is found under each of its names."""
    assert of({key: "true"}).ignore_delete


def test_the_new_name_wins_over_the_old_one():
    """If both are set, the first name counts."""
    assert not of({"deduplicate.ignore-delete": "true", "ignore-delete": "false"}).ignore_delete


def test_maps_by_level_fall_back_to_the_table_s_word():
    """A level that the map does not name takes the plain option; words are compared in small letters."""
    options = of(
        {
            "file.format.per.level": "0:Avro, 3:ORC",
            "file.compression.per.level": "0:lz4",
            "metadata.stats-mode.per.level": "0:none",
            "file.compression": "SNAPPY",
        }
    )
    assert [options.format_of(level) for level in (0, 1, 3)] == ["avro", "parquet", "orc"]
    assert [options.compression_of(level) for level in (0, 5)] == ["lz4", "snappy"]
    assert [options.stats_mode_of(level) for level in (0, 5)] == ["none", "truncate(16)"]


@pytest.mark.parametrize(
    "options",
    [{"merge-engine": "first-row"}, {"changelog-producer": "LOOKUP"}, {"deletion-vectors.enabled": "true"}],
)
def test_what_needs_lookup_is_known(options):
    """First-row, look-up changelogs and deletion vectors need look-ups of keys."""
    assert of(options).needs_lookup
    assert not of({}).needs_lookup


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("128", 128),
        ("128b", 128),
        ("1 kb", 1024),
        ("2K", 2048),
        ("3 mebibytes", 3 * MB),
        ("1 GB", 1024 * MB),
        ("1t", 2**40),
    ],
)
def test_sizes_are_read_as_java_reads_them(text, size):
    """A number and a unit, with or without a blank, in any case; without a unit bytes."""
    assert parse_memory(text) == size


@pytest.mark.parametrize(
    ("text", "millis"),
    [("1 h", 3_600_000), ("10min", 600_000), ("5 m", 300_000), ("2 days", 172_800_000), ("7", 7), ("3 s", 3000),
     ("4 seconds", 4000), ("1500 micros", 1), ("1 D", 86_400_000)],
)  # fmt: skip
def test_durations_are_read_as_java_reads_them(text, millis):
    """A number alone is milliseconds; days, minutes and their plurals are understood."""
    assert parse_duration_ms(text) == millis


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("target-file-size", "many"),
        ("target-file-size", "1 pb"),
        ("num-levels", "six"),
        ("write-only", "yes"),
        ("compaction.small-file-ratio", "x"),
        ("snapshot.time-retained", "1 fortnight"),
        ("file.format.per.level", "top:orc"),
        ("file.format.per.level", "0"),
    ],
)
def test_a_bad_value_is_reported_with_its_option(key, value):
    """One sentence names the option and the value."""
    with pytest.raises(InvalidInputError, match=f"Option {key}: '{value}'"):
        of({key: value})


def test_unknown_options_are_left_alone():
    """A table may have any other options; they are not ours."""
    assert of({"whatever": "x", "fields.a.aggregate-function": "sum"}) == of({})
