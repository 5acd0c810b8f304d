"""Ready-made problems with everything known in closed form."""

from rsgda.problems.toy import Toy

__all__ = ["Toy"]
