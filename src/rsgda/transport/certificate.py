"""How far a value of the semi-dual can be from the optimum."""

import jax.numpy as jnp
from jax import Array
from jax.scipy.special import xlogy

from rsgda._trees import PyTree
from rsgda.transport import stream
from rsgda.transport.costs import Cost

ROUNDINGS = 4  # of the largest number that it is computed from, that a value may be off


def rounding(u: Array, v: Array, nu: Array, epsilon: Array) -> Array:
    """Return what a value at v may be off: it is a sum of v and of u = -epsilon log(...)."""
    logs = epsilon * (1 + jnp.max(jnp.abs(jnp.log(nu))))
    largest = jnp.max(jnp.abs(u)) + jnp.max(jnp.abs(v)) + logs
    return ROUNDINGS * jnp.finfo(v.dtype).eps * largest


def gap_at(
    rows: stream.Rows,
    targets: PyTree,
    v: Array,
    nu: Array,
    epsilon: Array,
    u: Array,
    gets: Array,
    *,
    cost: Cost,
) -> Array:
    r"""Return the smaller of two bounds on what the optimum is above the value at v.

    One is that of concavity, $\frac12 \|\nu - \bar w\|_1 (\max_i \operatorname{osc}_j c_{ij} +
    \operatorname{osc} v)$. The other is the cost of a plan with both marginals: targets keep the
    shares $s_j = \min(1, \nu_j / \bar w_j)$ of what they get, and what is left of each x,
    $e_i = \mu_i \sum_j w_j(x_i) (1 - s_j)$, goes to those that lack $f_j = \nu_j - s_j \bar w_j$ in
    proportion. With $\delta = \sum_i e_i$, and the log-sum inequality between the two parts,

    $$ W_\varepsilon - F(v) \le \sum_{ij} \frac{e_i f_j}{\delta} (c_{ij} - u_i - v_j)
       + \varepsilon \Big[ \sum_j s_j \bar w_j \log s_j + \sum_i e_i \log \frac{e_i}{\mu_i}
       + \sum_j f_j \log \frac{f_j}{\nu_j} - 2 \delta \log \delta
       - (1 - \delta) \log (1 - \delta) \Big] $$

    To either comes what rounding may have taken from it.

    Args:
        rows: the points x, in chunks.
        targets: the points y, for the cost.
        v: their potentials.
        nu: their weights.
        epsilon: the regularisation.
        u: the potentials of x that belong to v, in chunks.
        gets: what the targets get.
        cost: of moving mass.

    Source: the first is ours by concavity; the plan is that of Altschuler, Weed and Rigollet
    (2017), Algorithm 2.
    """
    error = jnp.sum(jnp.abs(nu - gets))
    shares = jnp.minimum(1, nu / gets)
    lacking = jnp.maximum(nu - gets, 0)
    total = jnp.minimum(jnp.sum(lacking), 1)  # it is, but for rounding
    spare = jnp.where(total > 0, total, 1)
    end = stream.end(cost, rows, targets, v, nu, epsilon, u, shares, lacking / spare)
    mu, of_x = jnp.exp(rows.log_mu).ravel(), u.ravel()
    left = mu * end.lacks
    moved = jnp.sum(left * (end.elsewhere - of_x)) - v @ lacking
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
    # The value was lowered by one rounding already, and may be too low by one more.
    return gap + 2 * rounding(of_x, v, nu, epsilon)
