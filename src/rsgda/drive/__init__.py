"""The driver: `solve`, `sweep`, checkpoints, history."""
