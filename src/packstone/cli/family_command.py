"""A command whose help tells which options are for which family of tables."""

from __future__ import annotations

import click

from packstone.cli.family import HIVE_ONLY, PAIMON_ONLY


class FamilyCommand(click.Command):
    """Lists its options in three parts: for all tables, for Hive directories, for Paimon tables."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Print the parts that are not empty."""
        parts: dict[str, list[tuple[str, str]]] = {
            "Options": [],
            "Options for Hive directories": [],
            "Options for Paimon tables": [],
        }
        titles = list(parts)
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is not None and isinstance(parameter, click.Option):
                at = 1 if parameter.name in HIVE_ONLY else 2 if parameter.name in PAIMON_ONLY else 0
                parts[titles[at]].append(record)
        for title, records in parts.items():
            if records:
                with formatter.section(title):
                    formatter.write_dl(records)
