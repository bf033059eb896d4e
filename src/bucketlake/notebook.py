"""`%load_ext bucketlake`: SQL over a lake in the cells of a notebook, and errors without traces.

    %lake warehouse          connects; `lake` and `spark` are then variables, too
    %%lake [name]            runs the cell's statements and shows the last one's rows; `name` is their DataFrame

`:day` in a cell is the value of the notebook's variable `day`.

Spec: docs/notebooks.md
"""

from __future__ import annotations

import os
import shlex
from html import escape
from importlib import import_module
from typing import Any

from bucketlake.errors import InvalidError
from bucketlake.lazy import lazy
from bucketlake.traces import told

instants = lazy("bucketlake.spark.instants")
sessions = lazy("bucketlake.spark.session")
given = lazy("bucketlake.sql.query.given")
scripts = lazy("bucketlake.sql.script")
sql = lazy("bucketlake.sql")

SHOWN = 20  # rows of a cell's result
_VARIABLE = "lake"
_before: dict[int, Any] = {}  # by shell: what handled errors before


def load(shell: Any) -> None:
    """Register the magics with IPython; errors of Spark are told without traces from now on."""
    magics = _Magics(shell)
    shell.register_magic_function(magics.line, "line", "lake")
    shell.register_magic_function(magics.cell, "cell", "lake")
    _before[id(shell)] = (shell.custom_exceptions, shell.CustomTB)
    shell.set_custom_exc((import_module("pyspark.errors").PySparkException,), _show_error)


def unload(shell: Any) -> None:
    """Take back what `load` did."""
    for kind in ("line", "cell"):
        shell.magics_manager.magics[kind].pop("lake", None)
    before = _before.pop(id(shell), None)
    if before is not None:
        shell.custom_exceptions, shell.CustomTB = before


def _show_error(shell: Any, kind: Any, error: BaseException, trace: Any, tb_offset: Any = None) -> list[str]:
    lines = told(error)
    shell._showtraceback(kind, error, lines)
    return lines


class _Magics:
    def __init__(self, shell: Any) -> None:
        self._shell = shell

    def line(self, line: str) -> Any:
        """%lake warehouse [catalog]: connect to a warehouse. Without one: the lake that there is."""
        words = shlex.split(line)
        if not words:
            return self._lake()
        if len(words) > 1:
            raise InvalidError("%lake takes a warehouse", given=line, remedy="%lake folder-or-URI; %%lake runs SQL")
        place = self._shell.user_ns.get(words[0]) if words[0].isidentifier() else None
        lake = sessions.connect(place if isinstance(place, (str, os.PathLike)) else words[0], front=sql.FRONT)
        self._shell.push({_VARIABLE: lake, "spark": lake.spark})
        return lake

    def cell(self, line: str, cell: str) -> Any:
        """%%lake [name]: run the cell's statements; the last one's rows are shown, and are the DataFrame `name`."""
        name = line.strip()
        if name and not name.isidentifier():
            raise InvalidError("%%lake takes the name of a variable", given=name)
        lake, frame = self._lake(), None
        for piece in scripts.pieces(cell):
            known = {one: self._shell.user_ns[one] for one in given.marker_names(piece.text) if one in self._names()}
            try:
                frame = lake.sql(piece.text, known or None)
                last = Rows(frame) if piece.number == piece.of and frame.columns else None
            except Exception as error:
                raise scripts.located(error, cell, piece) from error.__cause__
        if frame is None:
            return None
        if name:
            self._shell.push({name: frame})
        return last

    def _lake(self) -> Any:
        found = self._shell.user_ns.get(_VARIABLE)
        if found is None or not hasattr(found, "sql_script"):
            raise InvalidError("no lake yet", remedy="%lake WAREHOUSE first, or lake = bucketlake.connect(…)")
        return found

    def _names(self) -> set[str]:
        return {name for name in self._shell.user_ns if not name.startswith("_")}


class Rows:
    """The first rows of a DataFrame, `frame`, as a console or a notebook shows them."""

    def __init__(self, frame: Any) -> None:
        self.frame = frame
        found = instants.on_clocks(frame.limit(SHOWN + 1)).collect()  # Python's are by the clock of this process
        self._rows, self._more = found[:SHOWN], len(found) > SHOWN

    def __repr__(self) -> str:
        heads = list(self.frame.columns)
        cells = [[_shown(value) for value in row] for row in self._rows]
        widths = [max(map(len, column)) for column in zip(heads, *cells, strict=True)]
        lines = [
            "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in [heads, *cells]
        ]
        return "\n".join([line.rstrip() for line in lines] + ([f"… more than {SHOWN} rows"] if self._more else []))

    def _repr_html_(self) -> str:
        head = "".join(f"<th>{escape(name)}</th>" for name in self.frame.columns)
        body = "".join(
            f"<tr>{''.join(f'<td>{escape(_shown(value))}</td>' for value in row)}</tr>" for row in self._rows
        )
        more = f"<div>… more than {SHOWN} rows</div>" if self._more else ""
        return f"<table><tr>{head}</tr>{body}</table>{more}"


def _shown(value: Any) -> str:
    return "NULL" if value is None else str(value)
