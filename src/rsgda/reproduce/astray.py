"""Whether what a run came to can be evaluated at all."""

import numpy as np

FAR = 1e15  # squares of it over epsilon are numbers in float32, with room to spare


def astray(values: np.ndarray) -> bool:
    """Say whether values are not numbers, or so far away that costs between them are none."""
    return not np.all(np.abs(values) < FAR)
