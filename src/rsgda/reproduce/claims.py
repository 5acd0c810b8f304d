"""What the paper claims, each sentence that can be tested, in our words, and what decides it.

The one place where claims are listed. A claim names the targets and the findings that speak to it,
by how they begin; its verdict is theirs together. Where nothing can speak to it, it says why.
"""

from typing import NamedTuple

THEORY, ROBUST, TRANSPORT = (
    "Theory",
    "Distributionally robust classification",
    "Learning with a Sinkhorn loss",
)


class Claim(NamedTuple):
    """A sentence of the paper.

    Attributes:
        name: short, for links.
        part: of the paper.
        says: the sentence, in our words.
        place: where it stands.
        by: what decides it: targets, and how their findings begin.
        errata: numbers of errata that touch it.
        because: why it is not testable here, if it is not.
    """

    name: str
    part: str
    says: str
    place: str
    by: tuple[tuple[str, str], ...] = ()
    errata: tuple[int, ...] = ()
    because: str = ""


CLAIMS = (
    Claim(
        "one-step", THEORY,
        "One step of RSGDA obeys an inequality: the squared gradient of phi, and the energy that "
        "is to be expected after the step, are at most the energy before it and noise.",
        "Section 3, Proposition 1",
        (("theory", "Proposition 1 "),), (3, 4, 5, 6, 7),
    ),
    Claim(
        "almost-surely", THEORY,
        "With steps that decay as prescribed, the smallest squared gradient of phi is "
        "o(k^(-2/5 + zeta)) along almost every run.",
        "Section 3, corollary on almost sure rates",
        (("theory", "almost_sure: k^"),), (9, 10, 31, 32),
    ),
    Claim(
        "almost-surely-exact", THEORY,
        "With exact gradients the smallest squared gradient is o(1/k) almost surely.",
        "Section 3, remark on almost sure rates",
        (("theory", "almost_sure, exact: k "), ("theory", "almost_sure, exact: E|grad")),
    ),
    Claim(
        "any-constant-steps", THEORY,
        "For this rate any constant steps are small enough.",
        "Section 3, remark on almost sure rates",
        (("theory", "remark: any constant steps"),), (14,),
    ),
    Claim(
        "rgda", THEORY,
        "With exact gradients, the smallest expected squared gradient is O(kappa^2/k), so that "
        "O(kappa^2 eps^-2) iterations are enough for every p from 1/kappa to 1/2.",
        "Section 3.1, corollary on RGDA",
        (
            ("theory", "exact: E|grad"), ("theory", "exact, main_text: E|grad"),
            ("theory", "RGDA takes O(kappa^2)"), ("theory", "exact: O("),
        ),
        (15, 16),
    ),
    Claim(
        "range-of-p", THEORY,
        "With exact gradients, p may be chosen freely from 1/kappa to 1/2: the order of the cost "
        "is the same.",
        "Section 3.1, (a)",
        (("theory", "the same order of complexity"),),
    ),
    Claim(
        "better-constants", THEORY,
        "At p = 1/2 the rate of GDA by Lin et al. comes out, with better constants.",
        "Section 3.1, (a)",
        (("theory", "p = 1/2 has the rate of GDA"),),
    ),
    Claim(
        "alpha-over-p", THEORY,
        "alpha should be of the order of eta/(p kappa^2): the rarer the descents, the larger.",
        "Section 3.1, (b)",
        (("theory", "alpha is of the order"),), (15,),
    ),
    Claim(
        "anytime", THEORY,
        "With decaying steps, the smallest expected squared gradient is O(log(k) k^(-2/5)) at "
        "every k.",
        "Section 3.2, corollary on decreasing steps",
        (("theory", "anytime: E|grad"), ("theory", "almost_sure: E|grad")), (9, 11, 12, 13, 33),
    ),
    Claim(
        "fixed-steps", THEORY,
        "With fixed steps O(kappa^3 eps^-5) iterations are enough, for every p from eps/kappa^2 to "
        "1/2.",
        "Section 3.2, corollary on fixed steps",
        (("theory", "precision: E|grad"), ("theory", "precision: O(")), (17, 18, 19, 20, 21),
    ),
    Claim(
        "large-batches", THEORY,
        "With large minibatches O(kappa^3 eps^-4) stochastic gradients are enough, for every p "
        "from 1/kappa to 1/2.",
        "Section 3.2, corollary on large minibatches",
        (("theory", "large_batch: E|grad"), ("theory", "large_batch: O(")), (22, 23, 24),
    ),
    Claim(
        "p-above-half", THEORY,
        "p above 1/2 does not make RSGDA diverge; it is slower by a factor that grows with p.",
        "Section 3, rates in expectation, (iii)",
        (("theory", "p above 1/2 converges"),),
    ),
    Claim(
        "p-outside", THEORY,
        "p outside of the range costs an additional factor.",
        "Section 3.2, other values of p",
        (("theory", "another factor kappa"), ("theory", "p below 1/kappa")),
    ),
    Claim(
        "cheap-descents", THEORY,
        "Where descents are cheaper than ascents, p above 1/2 is a sound choice.",
        "Section 3.2, other values of p",
        because="It is a matter of counting what both cost, which `rsgda plan --descent-cost "
        "--ascent-cost` does for any problem; there is no run in the paper to compare with.",
    ),
    Claim(
        "interpolation", THEORY,
        "Where the noise in v vanishes at the maximiser, O(kappa^2 eps^-4) iterations are enough "
        "without large batches, and the rates in k are better: 1/sqrt(k) up to a logarithm.",
        "Section 3.2.1, corollary on interpolation",
        (
            ("theory", "interpolation_anytime: E|grad"),
            ("theory", "interpolation_precision: E|grad"),
            ("theory", "interpolation_precision: O("),
        ),
        (25, 26, 27, 28, 29, 30),
    ),
    Claim(
        "interpolation-almost-surely", THEORY,
        "In that setting the smallest squared gradient is o(k^(-1/2 + zeta)) almost surely.",
        "Section 3.2.1, corollary on interpolation",
        (
            ("theory", "interpolation_almost_sure: k^"),
            ("theory", "interpolation_almost_sure: E|grad"),
        ),
        (25,),
    ),
    Claim(
        "interpolation-steps", THEORY,
        "The appendix writes out the steps of the interpolation setting, by which RSGDA converges.",
        "Appendix B, proof of the corollary on interpolation",
        (("theory", "appendix: interpolation converges"),), (25, 26),
    ),
    Claim(
        "first-of-their-kind", THEORY,
        "The almost sure rates are the first for algorithms of this kind, the others equal the "
        "best that were known, and the analysis is simpler than that of ESGDA.",
        "Abstract; Sections 1, 2 and 3",
        because="This is about what others had published, and about how proofs read.",
    ),
    Claim(
        "like-esgda-in-practice", ROBUST,
        "RSGDA performs very much like ESGDA in practice. (Held against a toy problem here.)",
        "Abstract; Section 1; conclusion",
        (("toy", "RSGDA(p"),),
    ),
    Claim(
        "figure-1", ROBUST,
        "On robust classification, RSGDA with p = 1/(m + 1) and ESGDA with m ascents are alike.",
        "Figure 1",
        (("fig1", "ESGDA("),), (50, 51),
    ),
    Claim(
        "interpolation-of-wrm", ROBUST,
        "For a large enough gamma the robust problem is nonconvex and strongly concave, and "
        "interpolation holds.",
        "Section 4.1, lemma of Sinha et al.",
        because="A proof, not a run. What can be computed of it is in the tests of the errata that "
        "are named; at gamma = 1.3 not all samples are certified to be concave, and the tables of "
        "Figures 1 and 2 have their share.",
        errata=(48, 49),
    ),
    Claim(
        "accuracy", ROBUST,
        "The models that are shown have more than 98 % validation accuracy.",
        "Section 4.1, MNIST",
        (("fig2", "more than 98%"),), (50,),
    ),
    Claim(
        "phi-is-shown", ROBUST,
        "What the figures show is phi itself, the loss at the maximiser.",
        "Section 4.1, MNIST",
        (("fig1", "the authors' evaluation"), ("fig2", "the authors' evaluation"),
         ("floor", "the authors' evaluation")),
    ),
    Claim(
        "eta", ROBUST,
        "Tuning eta matters less than tuning alpha and p.",
        "Section 4.1, Figure 2",
        (("fig2", "eta matters less"),), (51,),
    ),
    Claim(
        "alpha-at-large-p", ROBUST,
        "For p of 1/2 and more, alpha above 0.25 diverges, or the accuracy is low.",
        "Section 4.1, Figure 2",
        (("fig2", "p >= 0.5 with alpha > 0.25"),),
    ),
    Claim(
        "larger-alpha", ROBUST,
        "As the theory predicts, a smaller p allows larger alpha.",
        "Section 4.1, Figure 2",
        (("fig2", "smaller p allows larger alpha"),),
    ),
    Claim(
        "best-p", ROBUST,
        "p = 0.25 with alpha = 0.3 is the fastest.",
        "Section 4.1, Figure 2",
        (("fig2", "p = 0.25 with alpha = 0.3 is best"),),
    ),
    Claim(
        "too-rarely", ROBUST,
        "p = 0.1 is slow, as theta is updated too rarely.",
        "Section 4.1, Figure 2",
        (("fig2", "p = 0.1 is slower"),),
    ),
    Claim(
        "still-larger-alpha", ROBUST,
        "At p = 0.1 a still larger alpha diverges.",
        "Section 4.1, Figure 2",
        (("fig2", "p = 0.1 with a larger alpha"),),
    ),
    Claim(
        "semi-dual", TRANSPORT,
        "Learning with a semi-discrete Sinkhorn loss is nonconvex and, on a bounded set of "
        "potentials, strongly concave.",
        "Section 4.2, proposition; Appendix C",
        because="A proof, not a run. Its constants are computed, and mended, in the tests of the "
        "errata that are named.",
        errata=(34, 42, 43, 44, 45, 46),
    ),
    Claim(
        "figure-3", TRANSPORT,
        "Along the run the mapped cells come to lie on the others.",
        "Section 4.2, Figure 3",
        (("fig3", "the mapped cells come to lie"),),
    ),
    Claim(
        "rsgda-or-sinkhorn", TRANSPORT,
        "RSGDA reaches a lower loss than learning with Sinkhorn on minibatches.",
        "Section 4.2, Figure 4",
        (("fig4", "RSGDA ends below Sinkhorn"),), (35, 36, 37, 38, 39, 40),
    ),
    Claim(
        "larger-p", TRANSPORT,
        "A larger p is faster, up to 0.95; 0.9 is the best run that is shown.",
        "Section 4.2, Figures 3 and 4",
        (("fig4", "p = 0.9 and p = 0.95"), ("fig4", "p = 0.9 is best")),
    ),
    Claim(
        "too-large-p", TRANSPORT,
        "Beyond 0.95 it is slower than p = 0.5.",
        "Section 4.2, Figure 4",
        (("fig4", "p > 0.95 is slower"),),
    ),
    Claim(
        "small-p", TRANSPORT,
        "p below 0.5 brings nothing, although alpha may be larger.",
        "Section 4.2, Figure 4",
        (("fig4", "p < 0.5 brings nothing"),),
    ),
    Claim(
        "one-iteration", TRANSPORT,
        "One iteration of Sinkhorn a descent is best; more are slower.",
        "Section 4.2; Appendix D, Figure 5",
        (("fig5", "m_sin = 1 is the best"),),
    ),
    Claim(
        "bias", TRANSPORT,
        "More iterations are slower because the bias of minibatches grows with them.",
        "Section 4.2; Appendix D",
        because="The runs tell which ends lower, not why.",
    ),
    Claim(
        "cold-start", TRANSPORT,
        "A cold start of Sinkhorn at each minibatch is not competitive.",
        "Appendix D",
        (("fig5", "a cold start is not competitive"),), (39,),
    ),
    Claim(
        "their-cells", TRANSPORT,
        "All this is so on cells of a melanoma, by CyTOF and scRNA.",
        "Section 4.2; Appendix D",
        because="These cells cannot be had here. Blood cells by the same technologies, of about "
        "the same numbers, stand in; `rsgda reproduce fig3 fig4 fig5 --match X Y` takes the "
        "paper's own.",
    ),
    Claim(
        "smaller-cloud", TRANSPORT,
        "To map the smaller cloud to the larger costs less, and errs less, than to embed both.",
        "Appendix D",
        because="The paper has no embedding of both to compare with, nor has this.",
    ),
)  # fmt: skip
