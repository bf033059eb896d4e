"""Tables copied file by file, as they are."""
