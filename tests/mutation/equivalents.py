"""Random changes of host code after which nothing is worse: the line before, after, and why.

Equivalent(file, old, new, reason): the lines without indentation, as mutate.py --random prints
them. A row whose line is not in its file any more fails every run.
"""
from collections import namedtuple

Equivalent = namedtuple("Equivalent", "file old new reason")

EQUIVALENT = [
]
