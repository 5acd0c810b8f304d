"""`rsgda match`: from two files of cells to an aligned one and a report."""
