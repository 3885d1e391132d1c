"""What every strategy answers: a pick with its reason, or a skip with its reason."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Pick:
    """Merge these inputs (positions in the view) into one output."""

    inputs: tuple[int, ...]
    output_bytes: int
    reason: str
    why: str

    def __str__(self) -> str:
        return f"{' '.join(map(str, self.inputs))} -> {self.output_bytes}B  reason={self.reason}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Skip:
    """Leave it alone, and say why."""

    why: str

    def __str__(self) -> str:
        return f"skip: {self.why}"
