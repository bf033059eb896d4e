"""Where a warehouse's tables are registered: the file system, a SQL database, a REST server."""
