"""Random statements over one table and what it must hold after each: plain Python beside SQL; used by `sql/test_by_tasks.py`."""
