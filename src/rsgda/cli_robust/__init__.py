"""The commands `rsgda robust fit`, `evaluate` and `certify`: files in, a model and reports out."""
