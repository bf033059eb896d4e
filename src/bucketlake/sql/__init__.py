"""SQL over the tables of a lake: every statement of Spark, and the table language."""

from bucketlake.spark.session import Front
from bucketlake.sql.rows.merge_frames import merge
from bucketlake.sql.script import run_script
from bucketlake.sql.statements import run
from bucketlake.sql.tables.save import save

FRONT = Front(run, run_script, save, merge)

__all__ = ["FRONT", "run", "run_script"]
