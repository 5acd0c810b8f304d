"""The slips of the paper: what it prints, what is right, and the tests that show it.

The rows of the table in `docs/theory.md`; a test holds the two against each other.
"""

from typing import NamedTuple


class Erratum(NamedTuple):
    """A slip; formulas are LaTeX between dollar signs.

    Attributes:
        number: in the table.
        where: in the paper.
        paper: what it prints.
        right: what is right.
        tests: what shows it, in `tests/`; none where it shows from reading alone.
    """

    number: int
    where: str
    paper: str
    right: str
    tests: tuple[str, ...] = ()

    @property
    def file(self) -> str:
        """The file in `tests/` that holds the tests."""
        part = "theory" if self.number < 34 else "transport" if self.number < 48 else "robust"
        return f"test_errata_{part}.py"


ERRATA = (
    Erratum(
        1, "SGDmax",
        r"$\mathbb{E} F(\theta_k, v_{k+1}) \ge \phi(\theta_k) + \delta$",
        r"$\ge \phi(\theta_k) - \delta$; nothing exceeds the maximum",
        ("a_maximiser_up_to_delta",),
    ),
    Erratum(
        2, "SGDmax, text",
        "descent at $v_k$",
        "at $v_{k+1}$, as in the algorithm",
        ("the_descent_of_sgdmax",),
    ),
    Erratum(
        3, "Proposition 1",
        r"no condition on $\alpha$ alone",
        r"$\alpha \le \frac{1}{4\kappa L}$, which the proof uses; false without it for small $p$",
        ("missing_clip", "run_diverges"),
    ),
    Erratum(
        4, "Proposition 1",
        r"$\alpha \le a_1 / 4$",
        r"$\alpha \le a_1 / 2$ is enough, and what the corollaries use",
        ("constant_two",),
    ),
    Erratum(
        5, "Assumption on F",
        "only $F$ smooth and concave",
        r"each sample concave and $L_{\max}$-smooth in $v$, or A4",
        ("each_sample_must_be_smooth",),
    ),
    Erratum(
        6, "Noise in v",
        r"at one $\theta$, at the argmax of $f$, not centred",
        r"worst $\theta$, argmax of $F$ over $V$, centred",
        ("noise_at_the_maximiser_on_the_edge",),
    ),
    Erratum(
        7, "Proof of Proposition 1",
        r"drift of $v^*$ with $\tilde\sigma^2$",
        r"with $\sigma^2$: it comes from the gradient in $\theta$",
        ("drift_of_the_maximiser",),
    ),
    Erratum(
        8, "Assumption on F",
        r"smooth on $\mathbb{R}^d$",
        r"in $(\theta, v)$ together",
        ("joint_smoothness",),
    ),
    Erratum(
        9, "Almost sure, anytime",
        "steps with the constant 2, against the 4 of Proposition 1",
        r"2 is right; $\alpha_0$ is clipped at $\frac{1}{4 \kappa L}$",
        ("the_steps_of_the_main_text",),
    ),
    Erratum(
        10, "Almost sure",
        r"$\zeta > 0$, $\eta_k$ in the root",
        r"$0 < \zeta < 2/5$, $\eta_0$ in the root; else $\sum \alpha_k$ is finite or "
        r"$\alpha_k/\eta_k$ increases",
        ("zeta_and_the_root",),
    ),
    Erratum(
        11, "Anytime",
        r"two forms of $\alpha_k$",
        r"$\alpha_0 (k+1)^{-3/5}$; that of the appendix needs "
        r"$\frac{p}{1-p} \ge \frac{1}{4\kappa}$",
        ("the_steps_of_the_appendix",),
    ),
    Erratum(
        12, "Anytime, proof",
        r"$O(\kappa \log k / \sqrt{k})$",
        r"$O(\log k \cdot k^{-2/5})$",
        ("the_rate_of_the_anytime_proof",),
    ),
    Erratum(
        13, "Anytime",
        r"$O(\kappa \log k \cdot k^{-2/5})$, no expectation",
        r"$O((\kappa^2 L D_0 + \kappa L^2 r_0 + (\kappa \tilde\sigma^2 + \sigma^2) \log k) "
        "k^{-2/5})$ in expectation",
        ("what_the_anytime_bound_depends_on",),
    ),
    Erratum(
        14, "Remark on RGDA",
        "any constant steps",
        "those of Proposition 1; others diverge",
        ("constant_steps",),
    ),
    Erratum(
        15, "RGDA",
        r"$\eta = \frac{1}{2L}$ or $\frac1L$, no clip",
        r"both allowed, with $\alpha \le \frac{1}{4\kappa L}$, which binds at $p \approx 1/\kappa$",
        ("main_text_and_appendix",),
    ),
    Erratum(
        16, "RGDA, appendix",
        r"$\kappa L^2 r_0 / ((1-p) k)$",
        r"twice that for $\eta = \frac1L$, four times for $\frac{1}{2L}$",
        ("weight_of_r0",),
    ),
    Erratum(
        17, "Fixed steps",
        r"$2 \alpha^2 \kappa^4 p^2 \sigma^2 / ((1-p)^2 \eta^2)$",
        r"$4 \alpha^2 \kappa^4 p^2 \sigma^2 / ((1-p)^2 \eta^2)$",
        ("fixed_steps",),
    ),
    Erratum(
        18, "Fixed steps",
        r"$\frac{\epsilon^2}{12 \kappa L \sigma^2}$ before the whole minimum",
        "it belongs to the last entry only",
        ("prefactor",),
    ),
    Erratum(
        19, "Fixed steps",
        r"$48 \sqrt3$",
        r"$48 \sqrt6$",
        ("root_six",),
    ),
    Erratum(
        20, "Fixed steps, k",
        r"$8 \kappa^2 L$; $\sigma^2/\sigma^2$; no max",
        r"$48 \kappa^3 L \sigma^2 D_0 / \epsilon^2$; $24\, \sigma^2 / \epsilon^2$; the largest of "
        "all",
        ("count_of_fixed_steps",),
    ),
    Erratum(
        21, "Fixed steps",
        r"$\sigma \ge \tilde\sigma \ge 1$, $\eta = \frac{\epsilon^2}{24 \kappa L \sigma^2}$",
        r"$\eta = \min\{\frac{1}{2L}, \frac{\epsilon^2}{24 \kappa L \tilde\sigma^2}\}$; any "
        r"$\sigma$",
        ("eta_of_fixed_steps",),
    ),
    Erratum(
        22, "Large batch",
        r"$\eta$ is $\frac1L$ in some terms and $\frac{1}{2L}$ in others",
        "one of them throughout",
        ("large_batch_mixes_two_etas",),
    ),
    Erratum(
        23, "Large batch, noise",
        r"a stray $\kappa^{-2}$",
        r"the two terms are exactly $\frac12$",
        ("noise_of_large_batches",),
    ),
    Erratum(
        24, "Large batch",
        "$k$ on both sides; $M$ undefined",
        r"$M = \lceil 2 (2\kappa+1) \bar\sigma^2 / \epsilon^2 \rceil$, `steps` of `large_batch`",
        ("counts_of_large_batches",),
    ),
    Erratum(
        25, "Interpolation, almost sure",
        r"$(k+1)^{1/2-\epsilon}$, no $(1-p)/\kappa^2$",
        r"$(k+1)^{1/2+\zeta}$, and the factor",
        ("interpolation_almost_surely",),
    ),
    Erratum(
        26, "Interpolation, anytime",
        r"no $(1-p)/\kappa^2$; $O(\kappa \log k / \sqrt k)$",
        r"the factor; $O((\kappa^2 L D_0 + \kappa L^2 r_0 + \sigma^2 \log k) / \sqrt k)$",
        ("interpolation_anytime",),
    ),
    Erratum(
        27, "Interpolation, display",
        r"$(1-p)/\kappa$",
        r"$(1-p)/(2\kappa)$; the printed one is valid, and looser",
        ("eta_mu",),
    ),
    Erratum(
        28, "Interpolation, precision",
        r"$8$; $2\sqrt{10}$; $20\sqrt{10}$",
        r"$16$; $4\sqrt5$; $40\sqrt5$",
        ("coefficients_of_interpolation",),
    ),
    Erratum(
        29, "Interpolation, precision",
        r"$\epsilon^2$ in the third entry",
        r"$\epsilon$",
        ("third_entry_of_interpolation",),
    ),
    Erratum(
        30, "Interpolation, k",
        r"$\epsilon^{-2}$; $\epsilon^{-4}$; a root in the denominator",
        r"$\epsilon^{-4}$; $\epsilon^{-3}$; in the numerator",
        ("count_of_interpolation",),
    ),
    Erratum(
        31, "Almost sure, proof",
        r"$w_k \in [0, 1]$",
        "$w_0 = 2$, which does no harm",
        ("first_weight",),
    ),
    Erratum(
        32, "Robbins-Siegmund",
        "$U_{k+1}$",
        "$U_k$",
    ),
    Erratum(
        33, "Anytime, appendix",
        "$p_t$",
        r"a constant $p$, or $\frac{p_t \alpha_t}{(1-p_t)\eta_t}$ must not increase",
        ("p_must_not_change",),
    ),
    Erratum(
        34, "Semi-dual h",
        r"$-\epsilon$ and $+\epsilon$",
        "0 for the regularisation that the paper defines",
        ("no_constant_in_h", "a_linear_programme_bounds_the_value", "pot_has_the_same_value"),
    ),
    Erratum(
        35, "Sinkhorn",
        r"$a = 1/(Kb)$, $b = 1/(K^\top a)$",
        r"$a = 1/(K(\nu b))$, $b = 1/(K^\top(\mu a))$",
        ("scalings_need_the_weights", "printed_scalings_overflow"),
    ),
    Erratum(
        36, "Learning with Sinkhorn",
        r"$v = -\epsilon \log b$",
        r"$v = +\epsilon \log b$",
        ("v_is_plus_eps_log_b",),
    ),
    Erratum(
        37, "Learning with Sinkhorn",
        "a step along $h$",
        r"along $\nabla_\theta h$",
        ("the_step_is_along_the_gradient",),
    ),
    Erratum(
        38, "Learning with Sinkhorn",
        r"$B \subset [n]$; $y_j$",
        r"$B \subset [m]$; $f_{\theta_k}(y_j)$",
        ("the_batch_is_over_x_and_y_is_mapped",),
    ),
    Erratum(
        39, "Sinkhorn",
        "warm start of $a$; square $K$",
        r"$a$ is never read; $K$ has $\lvert B \rvert$ rows",
        ("a_is_never_read",),
    ),
    Erratum(
        40, "Sinkhorn",
        r"$K = \exp(-c/\epsilon)$",
        "in the log domain; it underflows",
        ("the_kernel_underflows",),
    ),
    Erratum(
        41, "Appendix D",
        r"$\sum_j \delta_{f(y_j)}$",
        r"$\frac1n \sum_j$",
    ),
    Erratum(
        42, "Smoothness of h",
        r"$(\mathcal{L}_c + 2 L_c^2) / \epsilon$",
        r"$\mathcal{L}_c + L_c^2 / \epsilon$; the printed one fails for $\epsilon > 1$",
        ("smoothness_in_theta", "the_constant_is_approached"),
    ),
    Erratum(
        43, "Hessian of h",
        r"an extra product, no $1/\epsilon$",
        r"$\sum_j w_j \nabla^2 c_j - \mathrm{Cov}_w(\nabla c) / \epsilon$",
        ("hessian_in_theta",),
    ),
    Erratum(
        44, "Smoothness of h",
        r"$1/\epsilon$, $2 L_c/\epsilon$",
        r"valid; tight are $\frac{1}{2\epsilon}$, $\frac{L_c}{\sqrt2 \epsilon}$",
        ("tight_constants", "blocks_and_joint_constant_by_autodiff"),
    ),
    Erratum(
        45, "Strong concavity of h",
        r"$w_i \ge e^{-(n+2) x} \min \nu / n$",
        r"$w_i \ge \min \nu \cdot e^{-(\sqrt2 \beta + L_c \Delta)/\epsilon}$, $\xi = "
        r"w_{\min}/\epsilon$",
        ("printed_bound_on_w_fails", "curvature_on_the_sum_zero_subspace"),
    ),
    Erratum(
        46, "Bound on potentials",
        r"$\theta \mapsto c$ Lipschitz",
        r"$y \mapsto c$",
        ("potentials_are_lipschitz_in_y", "projection_on_v"),
    ),
    Erratum(
        47, "Semi-dual problem",
        r"$\min_\theta$ where there is no $\theta$",
        r"$W_\epsilon = \max_v \mathbb{E} h$",
    ),
    Erratum(
        48, "Robust problem",
        r"$\phi = F$, $F = \max$",
        r"$\phi = \max_v F$",
    ),
    Erratum(
        49, "Robust problem",
        "each $F_i$ strongly concave",
        "each concave, $F$ strongly",
        ("the_pieces_are_not_strongly_concave", "the_noise_vanishes_at_the_maximiser"),
    ),
    Erratum(
        50, "Robust experiment",
        r"$\gamma = 1.3$ as Sinha et al.",
        r"theirs is $\gamma = 0.5 / 1.3 = 0.385$",
        ("their_eps_is_not_gamma",),
    ),
    Erratum(
        51, "Robust experiment",
        r"$\eta = 10$, scaling unstated",
        r"of the minibatch mean, and $b \ge 27$",
        (
            "eta_is_for_minibatch_means", "batches_that_are_stable_and_provable",
            "a_row_drawn_twice_moves_twice",
        ),
    ),
    Erratum(
        52, "Several minima",
        r"$\nabla\phi(\theta_k)$ under $\min_t$",
        r"$\nabla\phi(\theta_t)$",
    ),
)  # fmt: skip
