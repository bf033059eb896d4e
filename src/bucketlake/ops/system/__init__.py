"""System tables over a table's metadata: `t$snapshots`, `t$files` and their like."""
