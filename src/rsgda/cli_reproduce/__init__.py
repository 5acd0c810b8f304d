"""`rsgda reproduce`: targets of the paper, their report, and a check of what is stored."""
