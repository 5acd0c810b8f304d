"""All tests run in float64 where they do not ask for less, and nothing is promoted silently."""

import jax
import matplotlib

matplotlib.use("Agg")
jax.config.update("jax_enable_x64", True)
jax.config.update("jax_numpy_dtype_promotion", "strict")
