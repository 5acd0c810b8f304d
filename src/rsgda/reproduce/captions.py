"""Figures in words: what the paper says under its own, and where to look in these."""

from typing import NamedTuple


class Caption(NamedTuple):
    """The words of a figure.

    Attributes:
        paper: the caption of the paper, in our words; "" where the paper has no such figure.
        look: what to look for.
        more: other pictures of the target, by file, with what to look for in them.
    """

    paper: str
    look: str
    more: tuple[tuple[str, str], ...] = ()


CAPTIONS = {
    "toy": Caption(
        "",
        "One panel for each m. RSGDA tosses a coin that comes up as often as ESGDA descends, and "
        "both have spent as many gradients at each place of the axis: do the lines fall together? "
        "At the left ESGDA waits m ascents for its first descent, and RSGDA need not.",
    ),
    "theory": Caption(
        "",
        "Ten panels, one for each corollary, with what was measured (full) and the bound (dashed) "
        "for three values of p: a full line above its dashed one would refute it. Then how the "
        "iterations grow with kappa, against a slope of 2, and what p does: the shaded range is "
        "where the paper has one order of cost.",
    ),
    "fig1": Caption(
        "RSGDA and ESGDA on the robust problem: with m ascents in a loop, or a descent with "
        "probability 1/(m + 1), they perform alike. The axis is phi.",
        "One row for each objective, ours of the logits and the authors' double softmax. In a "
        "panel, do both lines lie in each other's bands? The last panel has the accuracies.",
    ),
    "fig2": Caption(
        "The training loss phi of RSGDA with eta = 10: what the step size alpha of the descents "
        "and their probability p do.",
        "First panel: the order of the lines, one for each p at its own best alpha. Third: crosses "
        "are runs that diverged, hollow marks those that did not come to 98 % accuracy. Fourth: "
        "points below the dotted line are values that no phi can have.",
    ),
    "floor": Caption(
        "",
        "phi at its maximum, with a certificate, and by the authors' rule. Full marks under the "
        "line are values that the rule accepts, although no phi can be so low.",
    ),
    "fig3": Caption(
        "t-SNE of the mapped cells along the iterations of RSGDA with p = 0.9.",
        "One embedding for all four times: at the start the mapped cells lie apart, and the "
        "question is whether they come to lie among the others. p is that of the run that ended "
        "lowest here.",
        (
            (
                "fig3-types.png",
                "The same, by type of cell. To lie among the others is not to lie among cells of "
                "one's own type: the loss does not know types.",
            ),
        ),
    ),
    "fig4": Caption(
        "The loss W_eps between the cells and the mapped ones, by RSGDA with several p and by "
        "Sinkhorn's algorithm on minibatches; eta = 5.",
        "Above, the loss over epochs and over gradients; the bands are all seeds. Below, how each "
        "seed ended on all rows, and how alpha was chosen: full marks are the chosen ones.",
    ),
    "fig5": Caption(
        "The loss W_eps when learning with Sinkhorn, by the iterations m_sin of Sinkhorn's "
        "algorithm at each descent; alpha = 0.005, minibatches of 128.",
        "Full lines start each minibatch where the last ended, dashed ones from nothing. Each has "
        "the alpha that is best for it. At equal gradients an iteration is counted as one.",
    ),
    "paired": Caption(
        "",
        "FOSCTTM: the share of cells closer than the true match, 0 perfect and 0.5 chance. Each "
        "dot is a seed, the ring the one that would be chosen without the truth.",
    ),
    "generation": Caption(
        "",
        "The divergence from images that were held out, over gradients, and what the generators "
        "draw at the end.",
    ),
}
