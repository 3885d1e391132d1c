"""Draw the charts of the documentation with the commands that its pages show.

Run as: .venv/bin/python scripts/make_charts.py     (writes docs/img/*.svg; takes some seconds)

Every line `$ packstone simulate ... --chart NAME.svg` of a page is run, and its picture is written to docs/img.
Nothing is edited by hand, and equal numbers give equal bytes.
"""

import re
import shlex
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PICTURES = ROOT / "docs" / "img"
PACKSTONE = Path(sys.executable).with_name("packstone")
COMMAND = re.compile(r"^\$ packstone (simulate .*--chart (\S+\.svg).*)$", re.MULTILINE)


def main() -> int:
    """Run the commands and keep the pictures."""
    PICTURES.mkdir(parents=True, exist_ok=True)
    for page in sorted((ROOT / "docs").rglob("*.md")):
        for words, name in COMMAND.findall(page.read_text(encoding="utf-8")):
            subprocess.run([PACKSTONE, *shlex.split(words)], cwd=PICTURES, check=True, stdout=subprocess.DEVNULL)
            print(f"docs/img/{name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
