"""How far a value of the semi-dual can be from the optimum."""

from typing import NamedTuple

import jax.numpy as jnp
from jax import Array
from jax.scipy.special import xlogy

from rsgda._trees import PyTree
from rsgda.transport import stream
from rsgda.transport.costs import Cost

ROUNDINGS = 8  # of the largest potentials, that a value may be off


class Judged(NamedTuple):
    """A value with its certificate.

    Attributes:
        u: the potentials of x, those that fill up its last chunk included.
        value: of the semi-dual.
        gap: what the optimum can be above it.
        error: what the plan is off the marginal nu.
    """

    u: Array
    value: Array
    gap: Array
    error: Array


def judged(
    rows: stream.Rows, targets: PyTree, v: Array, nu: Array, epsilon: Array, mu: Array, cost: Cost
) -> Judged:
    r"""Return the value at v and the smaller of two bounds on what the optimum is above it.

    One is that of concavity, $\frac12 \|\nu - \bar w\|_1 (\max_i \operatorname{osc}_j c_{ij} +
    \operatorname{osc} v)$. The other is the cost of a plan with both marginals: targets keep the
    shares $s_j = \min(1, \nu_j / \bar w_j)$ of what they get, and what is left of each x,
    $e_i = \mu_i \sum_j w_j(x_i) (1 - s_j)$, goes to those that lack $f_j = \nu_j - s_j \bar w_j$ in
    proportion. With $\delta = \sum_i e_i$, and the log-sum inequality between the two parts,

    $$ W_\varepsilon - F(v) \le \sum_{ij} \frac{e_i f_j}{\delta} (c_{ij} - u_i - v_j)
       + \varepsilon \Big[ \sum_j s_j \bar w_j \log s_j + \sum_i e_i \log \frac{e_i}{\mu_i}
       + \sum_j f_j \log \frac{f_j}{\nu_j} - 2 \delta \log \delta
       - (1 - \delta) \log (1 - \delta) \Big] $$

    A margin for rounding is added to either.

    Args:
        rows: the points x, in chunks.
        targets: the points y, for the cost.
        v: their potentials.
        nu: their weights.
        epsilon: the regularisation.
        mu: the weights of x, in the order of `rows`.
        cost: of moving mass.

    Source: the first is ours by concavity; the plan is that of Altschuler, Weed and Rigollet
    (2017), Algorithm 2.
    """
    seen = stream.look(cost, rows, targets, v, nu, epsilon)
    gets = jnp.exp(seen.log_mean)
    error = jnp.sum(jnp.abs(nu - gets))
    shares = jnp.minimum(1, jnp.exp(jnp.log(nu) - seen.log_mean))
    lacking = jnp.maximum(nu - gets, 0)
    total = jnp.minimum(jnp.sum(lacking), 1)  # it is, but for rounding
    spare = jnp.where(total > 0, total, 1)
    end = stream.end(cost, rows, targets, v, nu, epsilon, shares, lacking / spare)
    left = mu * end.lacks
    moved = jnp.sum(left * (end.elsewhere - end.u)) - v @ lacking
    entropy = (
        jnp.sum(xlogy(gets * shares, shares))
        + jnp.sum(xlogy(left, end.lacks))
        + jnp.sum(xlogy(lacking, lacking / nu))
        - 2 * xlogy(total, total)
        - xlogy(1 - total, 1 - total)
    )
    by_plan = moved + epsilon * entropy
    by_concavity = error / 2 * (end.spread + jnp.ptp(v))
    gap = jnp.maximum(jnp.minimum(by_plan, by_concavity), 0)
    rounding = ROUNDINGS * jnp.finfo(v.dtype).eps * (jnp.max(jnp.abs(end.u)) + jnp.max(jnp.abs(v)))
    return Judged(end.u, seen.value, gap + rounding, error)
