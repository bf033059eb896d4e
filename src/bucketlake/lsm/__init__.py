"""One bucket's LSM tree, pure: Arrow in, Arrow out; no files, no clock."""
