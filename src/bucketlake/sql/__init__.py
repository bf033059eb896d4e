"""`lake.sql`: Spark SQL with lake tables in it, and the table language. A thin translation to `table` and `spark`."""

from bucketlake.sql.statements import run, run_script

__all__ = ["run", "run_script"]
