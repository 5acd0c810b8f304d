"""`rsgda sweep`: a grid in a file to a table in a file."""
