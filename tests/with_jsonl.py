"""``python with_jsonl.py ARGUMENTS``: the command line with the row of JSON-lines tables."""

from jsonl_lake import with_row

from packstone.tables import families

families.FAMILIES = with_row()

from packstone.cli.main import main  # noqa: E402 - a row in the source is there before the command line is

main()
