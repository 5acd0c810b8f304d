"""Learning with entropic optimal transport: problems, Sinkhorn, potentials."""

from rsgda.transport.costs import p_norm as p_norm
from rsgda.transport.divergence import divergence as divergence
from rsgda.transport.generation import generation as generation
from rsgda.transport.matching import matching as matching
from rsgda.transport.networks import mlp as mlp
from rsgda.transport.plan import Sinkhorn as Sinkhorn
from rsgda.transport.potentials import Potentials as Potentials
from rsgda.transport.semidiscrete import semidiscrete as semidiscrete
from rsgda.transport.sinkhorn import sinkhorn as sinkhorn
from rsgda.transport.sinkhorn_descent import SinkhornDescent as SinkhornDescent
from rsgda.transport.steps import algorithm as algorithm
from rsgda.transport.steps import relative as relative

__all__ = [
    "Potentials",
    "Sinkhorn",
    "SinkhornDescent",
    "algorithm",
    "divergence",
    "generation",
    "matching",
    "mlp",
    "p_norm",
    "relative",
    "semidiscrete",
    "sinkhorn",
]
