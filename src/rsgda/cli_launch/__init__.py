"""`rsgda launch`: one script as several processes that work on one run."""
