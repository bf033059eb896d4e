"""Rows of a table without Spark, for the libraries that take them: Arrow, pandas, polars, DuckDB, Dask, Ray."""
