"""The paper's theory, corrected: constants, step sizes, bounds and iteration counts."""

from rsgda.theory.cost import BestP, best_p
from rsgda.theory.exact_gradients import exact
from rsgda.theory.interpolating import (
    interpolation_almost_sure,
    interpolation_anytime,
    interpolation_precision,
)
from rsgda.theory.measured import Estimate, estimate
from rsgda.theory.noisy_gradients import anytime, large_batch, precision
from rsgda.theory.plan import Condition, ConditionError, Plan
from rsgda.theory.proposition import (
    OneStep,
    alpha_max,
    conditions,
    fixed_steps,
    one_step,
    telescoped,
)
from rsgda.theory.regularity import Regularity
from rsgda.theory.rival import GDA, gda
from rsgda.theory.schedules import PowerLaw
from rsgda.theory.summability import almost_sure, summability

__all__ = [
    "GDA",
    "BestP",
    "Condition",
    "ConditionError",
    "Estimate",
    "OneStep",
    "Plan",
    "PowerLaw",
    "Regularity",
    "almost_sure",
    "alpha_max",
    "anytime",
    "best_p",
    "conditions",
    "estimate",
    "exact",
    "fixed_steps",
    "gda",
    "interpolation_almost_sure",
    "interpolation_anytime",
    "interpolation_precision",
    "large_batch",
    "one_step",
    "precision",
    "summability",
    "telescoped",
]
