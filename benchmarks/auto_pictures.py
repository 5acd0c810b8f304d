"""The pictures of docs/auto.md: toys on which one limit or signal decides about the steps.

python benchmarks/auto_pictures.py [--out DIR]
"""

import argparse
from pathlib import Path

import jax
import jax.random as jr

import rsgda
from rsgda.problems import Toy

OUT = Path(__file__).resolve().parents[1] / "docs" / "images"
STEPS = 3_000
PICTURES = {
    # v has a slow direction, so that m / b^2 is far below 1 / L of theta.
    "auto-slack": Toy(kinds="ABC", kappa=100.0, L=400.0),
    # phi falls for ever: theta drifts on and on.
    "auto-drift": Toy(kinds="D", kappa=5.0),
    # Noise in v: eta falls below 1 / L of v.
    "auto-noise": Toy(kinds="ABC", kappa=5.0, s=0.3, t=0.3),
}


def main() -> int:
    jax.config.update("jax_enable_x64", True)
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, default=OUT)
    asked = parser.parse_args()
    asked.out.mkdir(parents=True, exist_ok=True)
    for name, toy in PICTURES.items():
        theta, _ = toy.start()
        result = rsgda.solve(
            toy.problem, rsgda.Auto(), theta, -0.5 * toy.v_star(theta), key=jr.key(0),
            steps=STEPS, every=2, record=rsgda.record.steps(),
        )  # fmt: skip
        path = asked.out / f"{name}.png"
        rsgda.plots.trace(result).savefig(path, dpi=80)
        print(f"{path.name}: {result.message}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
