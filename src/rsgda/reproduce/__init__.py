"""The comparisons and claims of the paper, re-run from the command line."""
