"""Random changes of host code after which nothing is worse: the line before, after, and why.

equivalents.tsv has a row for each: the file, the lines without indentation as mutate.py --random and
survey.py print them, and the reason. A row that is no change of its file any more fails runs by hand.
"""
import csv
import os
from collections import namedtuple

Equivalent = namedtuple("Equivalent", "file old new reason")

with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "equivalents.tsv"),
          encoding="utf-8", newline="") as rows:
    EQUIVALENT = [Equivalent(*row) for row in csv.reader(rows, delimiter="\t", quoting=csv.QUOTE_NONE)]
