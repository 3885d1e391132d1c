"""A command whose help tells which options are for which family of tables."""

from __future__ import annotations

import click

from packstone.cli.family import PLURAL, families_of_option


class FamilyCommand(click.Command):
    """Lists its options in parts: for all or several families, then for each family alone."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Print the parts that are not empty."""
        parts: dict[str, list[tuple[str, str]]] = {"Options": []}
        parts |= {f"Options for {name}": [] for name in PLURAL.values()}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is not None and isinstance(parameter, click.Option):
                meant = families_of_option(parameter.name)
                parts[f"Options for {PLURAL[meant[0]]}" if len(meant) == 1 else "Options"].append(record)
        for title, records in parts.items():
            if records:
                with formatter.section(title):
                    formatter.write_dl(records)
