"""Draw the pictures of the documentation from the real output of real commands.

Run as: .venv/bin/python scripts/make_pictures.py     (writes docs/img/*.svg; takes about ten seconds)

The commands run on the lake of `packstone demo`, in a temporary folder, and on `examples/paimon`, without
Spark. Nothing is edited by hand: if a picture looks wrong, the program is wrong.
"""

import html
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import TerminalTheme
from rich.text import Text

ROOT = Path(__file__).resolve().parent.parent
PICTURES = ROOT / "docs" / "img"
PACKSTONE = Path(sys.executable).with_name("packstone")
COLUMNS = 100
CELL = 12.2  # the width of one character in rich's pictures
GROUND, TEXT = (16, 22, 30), (214, 222, 230)
# Muted colours that are readable on a dark background; red, green and yellow also differ in lightness.
NORMAL = [
    GROUND,
    (240, 113, 120),
    (125, 208, 145),
    (236, 196, 105),
    (110, 170, 240),
    (200, 150, 230),
    (95, 200, 215),
    TEXT,
]
THEME = TerminalTheme(GROUND, TEXT, NORMAL, NORMAL)
PIECE = re.compile(r'<text class="([^"]+)" x="([\d.]+)" y="([\d.]+)" textLength="[^"]+"([^>]*)>([^<]*)</text>')


def main() -> int:
    """Run the commands and write the pictures."""
    PICTURES.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="packstone-pictures-") as folder:
        lake = Path(folder)
        run(lake, "demo", "--folder", str(lake / "lake"), "--lake-only")
        health = run(lake / "lake", "health", "orders")
        compact = run(lake / "lake", "compact", "orders", "--header", "1")
        tour = run(lake, "demo", "--folder", str(lake / "tour"))
        segments = find_part(tour, "packstone compact sales", "Four loads")
        paimon = run(ROOT / "examples/paimon", "plan", "orders", "--where", "dt = '2024-05-01'")
    draw("health", f"{prompt('health orders')}\n{health}")
    draw("compact", f"{prompt('compact orders --header 1')}\n{compact}")
    draw("before-after", find_step(tour, "Before and after"))
    planned = prompt("plan orders --where \"dt = '2024-05-01'\"")
    draw("paimon-plan", f"{planned}\n{paimon}")
    draw("segments", segments)
    return 0


def run(folder: Path, *words: str) -> str:
    """Run one command as on a terminal and return its output."""
    environment = os.environ | {
        "COLORTERM": "truecolor",
        "FORCE_COLOR": "1",
        "PACKSTONE_ENGINE": "inline",
        "PACKSTONE_HISTORY": f"sqlite:///{folder}/history.db",
        "TERM": "xterm-256color",
    }
    done = subprocess.run([PACKSTONE, *words], cwd=folder, env=environment, capture_output=True, text=True, check=False)
    if done.returncode > 1:
        raise SystemExit(done.stderr)
    return done.stdout


def prompt(words: str) -> str:
    """Draw a line as it is typed."""
    return f"\x1b[2m$\x1b[0m \x1b[1mpackstone {words}\x1b[0m"


def find_step(tour: str, title: str) -> str:
    """Cut one step out of the tour, without its heading and its closing sentence."""
    lines = tour.splitlines()
    first = next(at for at, line in enumerate(lines) if title in line) + 1
    last = next(at for at in range(first, len(lines)) if "up to" in lines[at] or "one file" in lines[at])
    return "\n".join(lines[first : last + 1])


def find_part(tour: str, first: str, after: str) -> str:
    """Cut some commands out of the tour, up to the sentence that follows them."""
    lines = tour.splitlines()
    start = next(at for at, line in enumerate(lines) if first in Text.from_ansi(line).plain)
    end = next(at for at in range(start, len(lines)) if after in lines[at])
    return "\n".join(lines[start:end])


def draw(name: str, ansi: str) -> None:
    """Write one picture."""
    console = Console(record=True, width=COLUMNS, file=open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115, PTH123 - the record counts
    text = Text.from_ansi(ansi.rstrip("\n"))
    width = max(len(line.rstrip()) for line in text.plain.splitlines())
    console.width = min(COLUMNS, width)
    console.print(text)
    svg = console.export_svg(title="packstone", theme=THEME, unique_id=name)
    svg = PIECE.sub(words, svg)
    # The fonts would be loaded from the network; use the fonts of the reader's system.
    svg = re.sub(r"@font-face \{.*?\}\s*", "", svg, flags=re.DOTALL)
    svg = svg.replace("Fira Code,", "'Fira Code', ui-monospace, 'DejaVu Sans Mono', Menlo, Consolas,")
    (PICTURES / f"{name}.svg").write_text(svg.rstrip() + "\n", encoding="utf-8")
    print(f"docs/img/{name}.svg")


def words(run: re.Match[str]) -> str:
    """Give each word its own position and width: viewers treat blanks and fonts differently."""
    style, x, y, clip, content = run.groups()
    content, at, placed = html.unescape(content), float(x), []
    for word in re.findall(r"\S+|\s+", content):
        if not word.isspace():
            place = f'x="{at:g}" y="{y}" textLength="{len(word) * CELL:g}" lengthAdjust="spacingAndGlyphs"'
            placed.append(f'<text class="{style}" {place}{clip}>{html.escape(word)}</text>')
        at += len(word) * CELL
    return "".join(placed)


if __name__ == "__main__":
    sys.exit(main())
