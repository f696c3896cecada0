"""Sources of data, one file each."""
