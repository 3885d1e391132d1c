"""``packstone bundle OUT.tar.gz``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from packstone.cli import options

if TYPE_CHECKING:
    from packstone.spark.bundle import Bundle


@click.command("bundle", short_help="Pack Python and all packages into one archive for a cluster.")
@click.argument("target", metavar="OUT.tar.gz", type=click.Path(path_type=Path, resolve_path=True))
@click.option(
    "--extra",
    "extras",
    multiple=True,
    type=click.Choice(["hdfs", "s3", "mysql", "postgres"]),
    help="Include the packages of this extra; may be repeated. Default: the extras that are installed here.",
)
@options.output_options
def command(target: Path, extras: tuple[str, ...], output_format: str) -> int:
    """Pack this Python, its packages and Packstone into OUT.tar.gz, for a cluster whose nodes have none of them.

    Nothing is downloaded: the archive has the packages that are installed here. The command also writes the job for
    spark-submit, packstone_merge.py, next to the archive, and prints the commands that use both.
    """
    from packstone.cli.output import show
    from packstone.spark.bundle import write_bundle

    bundle = write_bundle(target, extras=extras)
    show(bundle.to_json(), output_format=output_format, draw=lambda console: _draw(console, bundle))
    return 0


def _draw(console: Any, bundle: Bundle) -> None:
    from packstone.cli.draw import draw_lines
    from packstone.model.sizes import format_bytes

    where = {"client": "the driver here, the executors on YARN", "cluster": "the driver on YARN too"}
    packages = ", ".join(f"{name} {version}" for name, version in bundle.packages)
    draw_lines(console, [f"wrote {bundle.path}: {format_bytes(bundle.size_bytes)}, for {bundle.platform}"])
    draw_lines(console, [f"wrote {bundle.job}: the job", f"holds Python {bundle.python}, {packages}"])
    for mode, text in where.items():
        console.print()
        console.out(f"# {text}")
        console.out(" \\\n    ".join(bundle.submit_lines(mode)), highlight=False)
