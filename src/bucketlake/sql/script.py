"""Scripts: several statements in order, up to the first that fails."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bucketlake.sql.statements import run
from bucketlake.sql.text.pieces import located, pieces

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from bucketlake.spark.session import Lake


def run_script(lake: Lake, script: str) -> DataFrame | None:
    """Run the statements of a script in order; the last one's rows, None if it had no statement.

    Errors: those of the first statement that fails, with its number and place; nothing after it was run.
    """
    result: DataFrame | None = None
    for piece in pieces(script):
        try:
            result = run(lake, piece.text)
        except Exception as error:
            raise located(error, script, piece) from error.__cause__
    return result
