"""The penalty on moving a sample: gamma, the eps of Sinha et al., and the units of the pixels."""

import dataclasses

from rsgda import _checks

Range = tuple[float, float]
LEAST = 1e-300  # whose inverse is finite, too


@dataclasses.dataclass(frozen=True)
class Penalty:
    r"""One penalty $\gamma \|z - x\|^2$, told in three ways.

    Attributes:
        gamma: of $\ell - \gamma \|z - x\|^2$, the paper's form and this library's.
        eps: of $\mathrm{eps}\, \ell - \|z - x\|^2 / 2$, the form of Sinha et al.'s code.
        pixels: the range that the inputs have.
    """

    gamma: float
    eps: float
    pixels: Range


def penalty(
    *,
    gamma: float | None = None,
    eps: float | None = None,
    pixels: Range = (0.0, 1.0),
    to: Range | None = None,
) -> Penalty:
    r"""Convert a penalty between its forms and between scales of the inputs.

    $$ \gamma = \frac{1}{2\, \mathrm{eps}}, \qquad
       \gamma' = \gamma \Big(\frac{b - a}{b' - a'}\Big)^2
       \quad\text{for inputs moved from } [a, b] \text{ to } [a', b'] $$

    so that the same picture, moved in the same way, is penalised alike.

    Args:
        gamma: the penalty in the paper's form, or
        eps: in the form of Sinha et al.'s code; give one of the two.
        pixels: the range of the inputs that it was meant for.
        to: the range of the inputs to convert to; None keeps it.

    >>> round(penalty(eps=1.3).gamma, 3)  # what "gamma = 1.3 as Sinha et al." comes to
    0.385
    >>> penalty(gamma=1.3, pixels=(-1.0, 1.0), to=(0.0, 1.0)).gamma  # what the authors' code has
    5.2

    Source: Section 5.1 of the paper; erratum 50.
    """
    if (gamma is None) == (eps is None):
        raise ValueError(f"give `gamma` or `eps`, one of them; got gamma={gamma!r}, eps={eps!r}.")
    to = pixels if to is None else to
    for name, ends in (("pixels", pixels), ("to", to)):
        check_range(name, ends)
    pixels, to = (float(pixels[0]), float(pixels[1])), (float(to[0]), float(to[1]))
    name, given = ("eps", eps) if gamma is None else ("gamma", gamma)
    _checks.positive(name, given)
    gamma = float(given) if eps is None else 0.5 / float(eps)  # pyright: ignore
    gamma *= (pixels[1] - pixels[0]) / (to[1] - to[0]) * (pixels[1] - pixels[0]) / (to[1] - to[0])
    if not LEAST <= gamma <= 1 / LEAST:
        raise ValueError(
            f"`{name}` must come to a gamma from {LEAST:g} to {1 / LEAST:g}, got {given!r}, which "
            f"with pixels = {pixels} and to = {to} comes to {gamma:g}."
        )
    return Penalty(gamma=gamma, eps=0.5 / gamma, pixels=to)


def check_range(name: str, ends: object) -> None:
    """Refuse what is not a pair of increasing finite numbers."""
    try:
        low, high = ends  # pyright: ignore[reportGeneralTypeIssues]
        good = float("-inf") < float(low) < float(high) < float("inf")
    except (TypeError, ValueError):
        good = False
    if not good:
        raise ValueError(f"`{name}` must be a pair (low, high) with low < high, got {ends!r}.")
