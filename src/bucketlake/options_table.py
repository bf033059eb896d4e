"""The option table: all rows together. One row, one option; `options` gives them meaning.

Spec: docs/spec/schema.md#options
"""

from __future__ import annotations

from bucketlake.options_model import HONOURED, KEPT, REFUSED, Option
from bucketlake.options_table_a_c import ROWS_A_C
from bucketlake.options_table_d_l import ROWS_D_L
from bucketlake.options_table_engines import ROWS_ENGINES
from bucketlake.options_table_m_r import ROWS_M_R
from bucketlake.options_table_s_z import ROWS_S_Z

__all__ = ["HONOURED", "KEPT", "REFUSED", "ROWS", "Option"]

ROWS = ROWS_A_C + ROWS_D_L + ROWS_M_R + ROWS_S_Z + ROWS_ENGINES
