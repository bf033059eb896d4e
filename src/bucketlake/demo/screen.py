"""How a tour is shown: each step with its time, answers as grids."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from time import perf_counter
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table as Grid


class Screen:
    """A terminal, or a pipe."""

    def __init__(self) -> None:
        self._console = Console(highlight=False)

    def say(self, text: str = "") -> None:
        """A line."""
        self._console.print(escape(text), soft_wrap=True)

    @contextmanager
    def step(self, what: str) -> Iterator[None]:
        """A spinner while the block runs, then how long it took."""
        started = perf_counter()
        with self._console.status(f"{escape(what)} …"):
            yield
        self._console.print(f"[green]✓[/] {escape(what)} [dim]{perf_counter() - started:.1f} s[/]", soft_wrap=True)

    def answer(self, title: str, frame: Any) -> None:
        """Run a query and show its rows."""
        with self.step(title):
            rows = frame.collect()
        self.grid(frame.columns, [[f"{v:,}" if isinstance(v, int) else str(v) for v in row] for row in rows])

    def grid(self, heads: Sequence[str], rows: Sequence[Sequence[str]], title: str | None = None) -> None:
        """Rows below their heads."""
        made = Grid(*map(escape, heads), title=title, title_justify="left", show_edge=False)
        for row in rows:
            made.add_row(*map(escape, row))
        self._console.print(made, "")
