#!/usr/bin/env python3
"""Prints how many lines of tests there are for each line of the product. Usage: ratio.py [ROOT]

Lines of C, C++, CUDA and tables. Tests are tests/ and every folder of that name; all else of the
folders below is the product. Exit status 1 above the bound.
"""
import os
import sys

TOP = ["include", "device", "transport", "bootstrap", "host", "perftest", "examples", "tests"]
ENDINGS = (".c", ".cc", ".cpp", ".cu", ".cuh", ".h", ".hpp", ".def", ".inl")
BOUND = 0.9


def lines_of(root):
    """Returns the lines of the product and of the tests."""
    product = tests = 0
    for top in TOP:
        for folder, _, files in os.walk(os.path.join(root, top)):
            is_test = "tests" in os.path.relpath(folder, root).split(os.sep)
            for name in filter(lambda each: each.endswith(ENDINGS), files):
                with open(os.path.join(folder, name), "rb") as file:
                    lines = file.read().count(b"\n")
                if is_test:
                    tests += lines
                else:
                    product += lines
    return product, tests


def main():
    default = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    product, tests = lines_of(sys.argv[1] if len(sys.argv) > 1 else default)
    print(f"tests: {tests} lines for {product} of the product, {tests / product:.2f} : 1 "
          f"(at most {BOUND:.2f})")
    return 1 if tests > BOUND * product else 0


if __name__ == "__main__":
    sys.exit(main())
