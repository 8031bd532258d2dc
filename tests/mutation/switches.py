"""All places of a source in one text, each with a switch: a build of it has every change in it, and
MUTATION_CHANGE=number puts one on (switches.h).

switched() keeps line numbers. Changes for which there is no such text, or of what is evaluated at
compile time, are left out or stay off. Of a longer chain, a || b || c, all that stands before the
changed operator is one operand, which the changed text may read otherwise.
"""
import os
import re

import places

HEADER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "switches.h")
OPENERS = {closer: opener for opener, closer in places.CLOSERS.items()}
BETWEEN = {"<": ("<", "Less"), "<=": ("<", "AtMost"), ">": ("<", "More"), ">=": ("<", "AtLeast"),
           "==": ("==", "Same"), "!=": ("==", "Other"), "+": ("+", "Plus"), "-": ("+", "Minus"),
           "*": ("*", "Times"), "/": ("*", "Over"), "%": ("*", "Rest")}
DECLARATION = re.compile(r"\s*(?:const )?[\w:<>]+[ *&]+(?:const )?\w+ = ")


def ends_operand(code, at, operator):
    """Whether an operand of && or || ends at this character, or begins after it."""
    one, two = code[at], code[at:at + 2]
    if one in ";,?" or two == "||" and operator == "&&" or code[at - 1:at + 1] == "||":
        return one != "|" or operator == "&&"
    if one == ":":
        return code[at - 1] != ":" and code[at + 1] != ":"
    return one == "=" and code[at - 1] not in "=!<>" and code[at + 1] != "="


def at_this_level(code, positions, inward, outward):
    """Those that are in no bracket of their own, and then the one that leads out."""
    depth = 0
    for i in positions:
        if code[i] in inward:
            depth += 1
        elif depth == 0:
            yield i
            if code[i] in outward:
                return
        elif code[i] in outward:
            depth -= 1


def before(code, at):
    return at_this_level(code, range(at - 1, -1, -1), OPENERS, places.CLOSERS)


def begin_of_left(code, at, operator):
    for i in before(code, at):
        if (code[i] in places.CLOSERS or ends_operand(code, i, operator) or
                re.search(r"\breturn\W$", code[max(0, i - 6):i + 2])):
            return i + 1
    return 0


def end_of_right(code, at, operator):
    for i in at_this_level(code, range(at, len(code)), places.CLOSERS, OPENERS):
        if code[i] in OPENERS or code[i:i + 2] in ("||", operator) or ends_operand(code, i, operator):
            return i
    return len(code)


def trimmed(text, begin, end):
    part = text[begin:end]
    return begin + len(part) - len(part.lstrip()), end - len(part) + len(part.rstrip())


def enclosing(code, at):
    """The bracket that is open at this character, and where it stands."""
    return next(((code[i], i) for i in before(code, at) if code[i] in places.CLOSERS), ("", 0))


def has_no_switch(code, place):
    what = code[place.start:place.end]
    if place.operator in ("drop", "guard"):
        bracket, at = enclosing(code, place.start)
        return (bracket != "{" or re.search(r"= (?:delete|default);$", what) is not None
                or re.search(r"\benum [\w: ]*$", code[max(0, at - 80):at]) is not None)
    if place.operator == "constant":
        return re.search(r"\d[eEpP][-+]$", code[:place.start][-4:]) is not None
    return place.operator == "not" and DECLARATION.match(what) is not None


class Edits:
    """Texts around ranges and instead of ranges; of two ranges the larger one is outside."""

    def __init__(self):
        self.rows = []

    def around(self, begin, end, before, after, outer=0):
        self.rows.append((begin, 1, -(end - begin) - outer, len(self.rows), before, begin))
        self.rows.append((end, 0, end - begin + outer, -len(self.rows), after, end))

    def instead(self, begin, end, new):
        self.rows.append((begin, 2, 0, 0, new, end))

    def of(self, text):
        parts, at = [], 0
        for begin, _, _, _, new, end in sorted(self.rows):
            parts += [text[at:begin], new]
            at = max(at, end)
        return "".join(parts) + text[at:]


def put_switch(edits, code, text, place, number):
    on, begin, end = f"::switches::on({number})", place.start, place.end
    if place.operator in ("compare", "arithmetic"):
        operator, name = BETWEEN[text[begin:end]]
        edits.instead(begin, end, f"{operator} ::switches::{name}({number}) {operator}")
    elif place.operator == "logic":
        # a || b is !(!a && !b).
        operator = text[begin:end]
        left, left_end = trimmed(text, begin_of_left(code, begin, operator), begin)
        right, right_end = trimmed(text, end, end_of_right(code, end, operator))
        edits.around(left, right_end, "((", f") != {on})")
        edits.around(left, left_end, "(static_cast<bool>(", f") != {on})", outer=0.5)
        edits.around(right, right_end, f"({on} != static_cast<bool>(", "))", outer=0.5)
    elif place.operator == "bool":
        edits.around(begin, end, "(", f" != {on})")
    elif place.operator == "constant":
        end = re.compile(r"[uUlL]*").match(text, end).end()
        edits.around(begin, end, "(", f" + {on})")
    elif place.operator == "flag":
        edits.around(begin + len(" | "), end, f"::switches::flag({number}, ", ")")
    elif place.operator == "not":
        edits.around(begin, end, f"{on} != static_cast<bool>(", ")")
    else:
        edits.around(begin, end, f"{{ if (!{on}) {{ ", " } }")


def switched(text, found, first, left_out):
    """The text with the places `found`, of which `first` is the first one's number, less those whose
    numbers are left out; these and what else has no switch are added to them."""
    code, edits = places.mask(text), Edits()
    for number, place in enumerate(found, first):
        if number not in left_out and has_no_switch(code, place):
            left_out.add(number)
        if number not in left_out:
            put_switch(edits, code, text, place, number)
    return f'#include "{HEADER}"\n#line 1\n' + edits.of(text)
