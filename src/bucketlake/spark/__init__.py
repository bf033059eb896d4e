"""Lake tables through PySpark: the only layer, with `sql`, that imports it."""
