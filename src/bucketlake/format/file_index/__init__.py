"""The file index of a data file: bloom filters, bitmaps, range bitmaps, bit slices, in one container."""
