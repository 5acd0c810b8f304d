"""Ready-made problems: with everything known in closed form, and to measure algorithms on."""

from rsgda.problems.rescaled import rescaled
from rsgda.problems.suite import names, task
from rsgda.problems.task import Task
from rsgda.problems.toy import Toy

__all__ = ["Task", "Toy", "names", "rescaled", "task"]
