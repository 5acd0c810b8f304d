"""A family of nonconvex-strongly-concave problems with everything in closed form."""

import dataclasses
import functools
import math
import operator
from typing import NamedTuple

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jax.typing import DTypeLike

from rsgda._checks import host_number, positive, whole
from rsgda.problem import Problem

Batch = tuple[jax.Array, jax.Array, jax.Array]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Toy:
    r"""Scalar saddle problems side by side, one for each letter of `kinds`.

    $$ F(\theta, v) = \sum_i q_i(\theta_i) + b_i \theta_i v_i - \tfrac{m_i}{2} v_i^2, \qquad
       \mu = L / \kappa, \quad G = L / 4 $$
    $$ f(\theta, v; z) = F(\theta, v) + s \langle \xi, \theta \rangle + t \langle \zeta, v \rangle
       + \rho\, \tau \sum_i \log\cosh(v_i - v^*_i(\theta)), \qquad
       \varphi_D(\theta) = \tfrac{L}{4r} (1 + \theta^2)^{-r/2} $$

    | kind | $m$ | $b$ | $q(\theta)$ | role |
    |---|---|---|---|---|
    | A | $\mu$ | $\sqrt{(L-G)(L-\mu)}$ | $G(1-\cos\theta)$ | attains the smoothness $L$ |
    | B | $\mu$ | $\sqrt{G\mu}/2$ | $G(1-\cos\theta)$ | nonconvex $\varphi$, stationary at 0 only |
    | C | $\max(L/2, \mu)$ | $L/2$ | $G(1-\cos\theta)$ | stiff in $v$ |
    | D | $\mu$ | $\sqrt{L\mu}/2$ | $\varphi_D(\theta) - L\theta^2/8$ | tail; infimum not attained |

    $z = (\xi, \zeta, \tau)$ are independent fair signs, $2d + 1$ of them.

    Args:
        kinds: letters of ABCD, one for each coordinate of `theta` and of `v`.
        kappa: condition number L / mu, at least 1.5.
        L: smoothness of F in (theta, v).
        s: noise in theta; with s = t = rho = 0 gradients are exact.
        t: noise in v; with t = 0 all samples have the same v* (interpolation).
        rho: noise in both off v*, below mu and at most L / 2.
        r: exponent of the tail of D.
        batch_size: number of draws that a sample is the mean of.

    >>> toy = Toy(kinds="AB", kappa=4.0, t=0.5)
    >>> float(toy.phi(jnp.zeros(2))), toy.mu, round(toy.sigma_v, 3)
    (0.0, 0.25, 0.707)
    """

    kinds: str = "ABC"
    kappa: float = 10.0
    L: float = 1.0
    s: float = 0.0
    t: float = 0.0
    rho: float = 0.0
    r: float = 0.1
    batch_size: int = 1

    def __post_init__(self) -> None:
        if not isinstance(self.kinds, str) or not self.kinds or set(self.kinds) - set("ABCD"):
            raise ValueError(f"`kinds` must be one or more letters of ABCD, got {self.kinds!r}.")
        for name, least in (("kappa", 1.5), ("L", 0), ("s", 0), ("t", 0), ("rho", 0), ("r", 0)):
            value = getattr(self, name)
            number = host_number(value)
            if number is None or not least <= number < math.inf:
                raise ValueError(f"`{name}` must be a finite number >= {least}, got {value!r}.")
            object.__setattr__(self, name, number)  # plain, so that it hashes and prints well
        positive("L", self.L)
        positive("r", self.r)
        if self.rho >= self.mu or self.rho > self.L / 2:
            wish = f"below L / kappa = {self.mu!r} and at most L / 2 = {self.L / 2!r}"
            raise ValueError(f"`rho` must be {wish}, got {self.rho!r}.")
        whole("batch_size", self.batch_size, 1)

    @property
    def problem(self) -> Problem:
        """The problem to solve; equal toys give one and the same, which is compiled once."""
        return _problem(self)

    def start(self, dtype: DTypeLike = float) -> tuple[jax.Array, jax.Array]:
        """(theta, v) from where phi falls visibly: v = 0, theta = 2, or 1 where D is steepest."""
        theta = [1.0 if kind == "D" else 2.0 for kind in self.kinds]
        return jnp.asarray(theta, dtype), jnp.zeros(self.d, dtype)

    def loss(self, theta: jax.Array, v: jax.Array) -> jax.Array:
        """F(theta, v)."""
        c = self._constants(theta, v)
        q = self._along_theta(theta, c, c.square_q)
        return (q + c.b * theta * v - (0.5 * c.m) * jnp.square(v)).sum()

    def sample_loss(self, theta: jax.Array, v: jax.Array, batch: Batch) -> jax.Array:
        """f(theta, v; z), its mean over the draws (xi, zeta, tau) in the batch."""
        # f is linear in the signs, so that the mean over the batch is taken of these alone.
        xi, zeta, tau = (signs.astype(theta.dtype).mean(axis=0) for signs in batch)
        value = self.loss(theta, v)
        if self.s:
            value += self.s * (xi * theta).sum()
        if self.t:
            value += self.t * (zeta * v).sum()
        if self.rho:
            value += self.rho * tau * _log_cosh(v - self.v_star(theta)).sum()
        return value

    def sample(self, key: jax.Array) -> Batch:
        """A batch of signs: xi and zeta of shape (batch_size, d), tau of shape (batch_size,)."""
        shape = (self.batch_size, 2 * self.d + 1)
        # All 32 bits of a word are used: a word for each sign would cost more than the gradient.
        words = jr.bits(key, (-(-math.prod(shape) // 32), 1), "uint32")
        bits = (words >> np.arange(32, dtype=np.uint32) & 1).ravel()[: math.prod(shape)]
        signs = 2 * bits.reshape(shape).astype("int8") - 1
        return signs[:, : self.d], signs[:, self.d : -1], signs[:, -1]

    def signs(self) -> Batch:
        """All batches there are, equally likely, along a new leading axis (for `vmap`).

        `zeta` repeats `xi`: the gradient in theta sees (xi, tau) alone and that in v (zeta, tau)
        alone, so each has its exact law over 2^(d + 1) draws instead of 2^(2d + 1). Products of
        the two gradients of one sample are not covered; no algorithm here forms them.
        """
        count = self.batch_size * (self.d + 1)
        if count > 20:  # more than a million batches
            raise ValueError(f"`batch_size` * (d + 1) must be at most 20 to list all, got {count}.")
        bits = np.arange(2**count)[:, None] >> np.arange(count) & 1
        signs = jnp.asarray(2 * bits - 1, "int8").reshape(-1, self.batch_size, self.d + 1)
        return signs[..., :-1], signs[..., :-1], signs[..., -1]

    def v_star(self, theta: jax.Array) -> jax.Array:
        """The maximiser of F(theta, .)."""
        return theta * self._constants(theta).slope

    def phi(self, theta: jax.Array) -> jax.Array:
        """The maximum of F(theta, .)."""
        c = self._constants(theta)
        return self._along_theta(theta, c, c.square_phi).sum()

    def grad_phi(self, theta: jax.Array) -> jax.Array:
        """The gradient of phi."""
        c = self._constants(theta)
        return jax.grad(lambda x: self._along_theta(x, c, c.square_phi).sum())(theta)

    def gap(self, theta: jax.Array, v: jax.Array) -> jax.Array:
        """What F(theta, v) lacks to the maximum over v; nothing cancels in it."""
        c = self._constants(theta, v)
        return (0.5 * c.m * jnp.square(v - self.v_star(theta))).sum()

    @property
    def d(self) -> int:
        """Number of coordinates."""
        return len(self.kinds)

    @property
    def inf_phi(self) -> float:
        """The infimum of phi."""
        return 0.0

    @property
    def mu(self) -> float:
        """Strong concavity of F in v, the best constant if there is an A, B or D."""
        return self.L / self.kappa

    @property
    def L_max(self) -> float:
        """Smoothness in v of the worst sample; above L for some kappa < 2."""
        return float(self._table.m.max()) + self.rho

    @property
    def sigma(self) -> float:
        """Standard deviation of the gradient in theta, at the worst (theta, v)."""
        slopes = float(np.square(self._table.slope).sum())
        return math.sqrt((self.s**2 * self.d + self.rho**2 * slopes) / self.batch_size)

    @property
    def sigma_v(self) -> float:
        """Standard deviation of the gradient in v at v*(theta), the same for all theta."""
        return self.t * math.sqrt(self.d / self.batch_size)

    @property
    def _table(self) -> "_Constants":
        return _table(self.kinds, self.kappa, self.L, self.r)

    def _constants(self, theta: jax.Array, v: jax.Array | None = None) -> "_Constants":
        for name, value in (("theta", theta), ("v", theta if v is None else v)):
            if value.shape != (self.d,):  # (1,) would broadcast to a wrong sum
                raise ValueError(f"`{name}` must have shape ({self.d},), got {value.shape}.")
        return _Constants(*(column.astype(theta.dtype) for column in self._table))

    def _along_theta(self, theta: jax.Array, c: "_Constants", square: np.ndarray) -> jax.Array:
        """The terms in theta alone, those of absent kinds left out."""
        terms = []
        if c.wave.any():
            terms.append(c.wave * _one_minus_cos(theta))
        if c.tail.any():
            terms.append(c.tail * (1.0 + jnp.square(theta)) ** (-0.5 * self.r))
        if square.any():
            terms.append((0.5 * square) * jnp.square(theta))
        return functools.reduce(operator.add, terms)


class _Constants(NamedTuple):
    m: np.ndarray
    b: np.ndarray
    slope: np.ndarray  # of v*, b / m
    wave: np.ndarray  # weight of 1 - cos theta
    tail: np.ndarray  # weight of (1 + theta^2)^(-r/2)
    square_q: np.ndarray  # weight of theta^2 / 2 in q
    square_phi: np.ndarray  # the same in phi


@functools.lru_cache(maxsize=256)
def _table(kinds: str, kappa: float, L: float, r: float) -> _Constants:
    """The constants of each coordinate, a column each."""
    mu, G = L / kappa, L / 4
    b_A = math.sqrt((L - G) * (L - mu))
    m_C = max(L / 2, mu)
    b_C = min(L / 2, math.sqrt((L - G) * (L - m_C)))
    # b^2 / m is written out where it is simple, for phi of D to have no square left by rounding.
    rows = {
        "A": (mu, b_A, b_A / mu, G, 0.0, 0.0, b_A**2 / mu),
        "B": (mu, math.sqrt(G * mu) / 2, math.sqrt(G / mu) / 2, G, 0.0, 0.0, G / 4),
        "C": (m_C, b_C, b_C / m_C, G, 0.0, 0.0, b_C**2 / m_C),
        "D": (mu, math.sqrt(L * mu) / 2, math.sqrt(L / mu) / 2, 0.0, L / (4 * r), -L / 4, 0.0),
    }
    return _Constants(*np.array([rows[kind] for kind in kinds]).T)


@functools.lru_cache(maxsize=256)
def _problem(toy: Toy) -> Problem:
    # Cached, because bound methods are equal only if they are bound to one and the same object.
    if toy.s or toy.t or toy.rho:
        return Problem(toy.sample_loss, sample=toy.sample)
    return Problem(toy.loss)


@jax.custom_jvp
def _one_minus_cos(x: jax.Array) -> jax.Array:
    return 2.0 * jnp.square(jnp.sin(0.5 * x))  # does not cancel for small x


# By hand, because one sine is cheaper than the product of a sine and a cosine.
_one_minus_cos.defjvps(lambda dx, _, x: jnp.sin(x) * dx)


@jax.custom_jvp
def _log_cosh(x: jax.Array) -> jax.Array:
    return jnp.logaddexp(x, -x) - math.log(2.0)


# By hand, because that of `logaddexp` is a difference, which cancels near 0.
_log_cosh.defjvps(lambda dx, _, x: jnp.tanh(x) * dx)
