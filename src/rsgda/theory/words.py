"""What was measured, how well, and what is doubtful about it, in words."""

from typing import Any

import numpy as np

from rsgda._lanczos import Spectrum
from rsgda.problem import Problem
from rsgda.theory.local import Local
from rsgda.theory.pieces import is_inside


def how(
    problem: Problem,
    stiff: Local,
    soft: Local,
    found: list[Local],
    looked: int,
    count: int,
    L_max: float,
) -> dict[str, str]:
    """Say how each constant was measured."""
    along = "" if problem.project_v is None else " along V"
    if not all(is_inside(local.inside) for local in found):
        along = " in all directions (those of V could not be told)"
    joint = stiff.joint
    F = "F" if problem.sample is None else f"F (a mean of {count} draws)"
    metric = ", in w = v / sqrt(n)" if problem.separable else ""
    one_by_one = f"{looked} draws" if problem.sample is not None else f"{looked} rows"
    some = problem.data is not None and looked < problem.rows
    if some:
        one_by_one += f" of {problem.rows} at random"
    if problem.separable and some:
        F = f"F (of {one_by_one})"
    how = {
        "L": f"norm of the joint Hessian of {F}{metric}, Lanczos, {residual(*larger(joint))}",
        "mu": f"smallest curvature of -{F} in v{along}, Lanczos, "
        f"{residual(soft.curvature.low, soft.curvature.low_error)}",
        "L_max": f"largest norm of the Hessian in v{along} of {one_by_one}, Lanczos",
        "sigma": f"unbiased sample variance of {count} gradients",
        "sigma_v": "",
        "r0": "squared gradient mapping in v over mu^2, an upper bound",
        "D0": "F plus its largest rise under mu, minus `inf_phi`, an upper bound",
    }
    if problem.exact:
        how["L_max"] = f"norm of the Hessian of F in v{along}: F is the only sample"
        how["sigma"] = "gradients are exact"
    elif problem.data is not None:
        those = one_by_one if problem.separable else f"{count} rows"
        how["sigma"] = f"variance over {those} by themselves, over batch_size"
    if problem.separable:
        how["mu"] = f"smallest curvature in v{along} among {one_by_one}, Lanczos each"
        how["mu"] += f", {residual(soft.curvature.low, soft.curvature.low_error)}"
        how["L_max"] = f"n / batch_size times {L_max:.4g}, the largest norm of {one_by_one}"
    how["sigma_v"] = how["sigma"] + (metric if problem.separable else "")
    how["concave"] = "F alone" if problem.exact else f"F and each of the {one_by_one} looked at"
    if not problem.exact:
        how["worst"] = f"curves least in v of the {one_by_one} looked at"
    if problem.sample is not None:
        of_L, of_mu = spreads(stiff)[0], spreads(soft)[1]
        noisy = max(found, key=lambda local: float(local.noise)).noise_spread[0]
        noisy_v = max(found, key=lambda local: float(local.noise_v)).noise_spread[1]
        # Half of the error of a square is that of its root.
        shares = {"L": of_L, "mu": of_mu, "sigma": noisy / 2, "sigma_v": noisy_v / 2}
        for name, share in shares.items():
            how[name] += f", ± {100 * share:.2g} % from sampling"
    return how


def doubts(problem: Problem, result: Any, found: list[Local], steps: int) -> list[str]:
    """Say where the theory does not hold for lack of concavity, or where that is not known."""
    soft, lowest = softest(found), float(samples(found)[0].min())
    low, error = float(soft.curvature.low), float(soft.curvature.low_error)
    row = f", in row {result.worst}" if problem.separable else ""
    name, rounding = soft.mu.dtype.name, rounding_of(soft) * result.L
    more = f"raise `steps`, now {steps}, or give it by `dataclasses.replace(r, mu=...)`"
    if error <= rounding and name != "float64":
        more = f"it is close to the rounding of {name}, use float64"
    if abs(low) <= rounding and error <= rounding:
        beside = f"the rounding of {name} beside L = {result.L:.3g}{row}"
        if name == "float64":
            what = f"F is not strongly concave in `v`: its smallest curvature, {low:.3g}, is zero "
            return [f"{what}up to {beside}. {_ADVICE}"]
        what = f"The smallest curvature of F in `v`, {low:.3g}, is below {beside}"
        return [f"{what}: it cannot be told from zero; use float64."]
    if low > 0 and result.mu <= rounding:
        what = f"mu was not resolved: the smallest curvature of F in `v` that was found{row} is "
        return [
            f"{what}{low:.3g}, with a residual of {error:.3g}: the true one may be far less; "
            f"{more}."
        ]
    texts = []
    if error > 0.01 * abs(low):
        texts.append(
            f"mu is known only to {100 * error / abs(low):.2g} %: the smallest curvature that was "
            f"found{row} is {low:.3g}, of which its residual was taken off; {more}."
        )
    if result.concave:
        return texts
    if low <= 0:
        what = f"F is not strongly concave in `v`: its smallest curvature is {low:.3g}{row}"
        if not problem.exact and not problem.separable:
            what += f", and that of sample {result.worst} is {lowest:.3g}"
    else:
        kind = "row" if problem.sample is None else "draw"
        what = f"F is concave in `v`, but not each sample: {kind} {result.worst} curves the wrong "
        what += f"way, by {lowest:.3g}"
    return [*texts, f"{what}. {_ADVICE}"]


_ADVICE = (
    "The theory's steps and bounds do not hold there; if v is meant to stay in a subspace or a "
    "smaller set, give the problem its `project_v`."
)


def errors(found: list[Local], count: int) -> list[str]:
    """Say where L was not resolved, and where a mean of draws is not F."""
    texts = []
    value, error = larger(max(found, key=lambda local: norm(local.joint)).joint)
    if error > 0.01 * abs(value):
        share = f"{100 * error / abs(value):.2g} %"
        texts.append(f"L is known only to {share}, the residual of Lanczos; raise `steps`.")
    shares = np.max([spreads(local) for local in found], axis=0)
    if shares.max() > 0.01:
        texts.append(
            f"L and mu are those of a mean of {count} draws in place of F: sampling leaves "
            f"± {100 * shares[0]:.2g} % in L and ± {100 * shares[1]:.2g} % in mu; raise `batches`."
        )
    return texts


def spreads(local: Local) -> tuple[float, float]:
    """Return the relative standard errors of L and mu from sampling."""
    L, low = norm(local.joint), abs(float(local.curvature.low))
    return float(local.L_spread) / (L or 1.0), float(local.mu_spread) / (low or 1.0)


def softest(found: list[Local]) -> Local:
    """Return the point that curves least."""
    return min(found, key=lambda local: float(local.mu))


def rounding_of(local: Local) -> float:
    """Return what is lost to rounding, relative to the largest curvature."""
    return 100 * float(np.finfo(local.mu.dtype).eps)


def larger(spectrum: Spectrum) -> tuple[float, float]:
    """Return the end that is the norm, and its error."""
    low, high = float(spectrum.low), float(spectrum.high)
    if abs(low) > abs(high):
        return low, float(spectrum.low_error)
    return high, float(spectrum.high_error)


def residual(value: Any, error: Any) -> str:
    """Say how well a value is known."""
    if not value:
        return f"residual {float(error):.1e}"
    return f"residual {float(error) / abs(float(value)):.1e} of it"


def samples(found: list[Local]) -> tuple[np.ndarray, np.ndarray]:
    """Return the smallest curvature and the norm of each sample (of F itself) at each point."""
    of = [local.curvature if local.samples is None else local.samples for local in found]
    lows = np.stack([np.atleast_1d(spectrum.low) for spectrum in of])
    highs = np.stack([np.atleast_1d(spectrum.high) for spectrum in of])
    return lows, np.maximum(np.abs(lows), np.abs(highs))


def norm(spectrum: Spectrum) -> float:
    """Return the largest curvature, whatever its sign."""
    return max(abs(float(spectrum.low)), abs(float(spectrum.high)))
