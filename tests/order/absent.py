"""Programs that do not ask for an order checker have nothing of it: absent.py COMPILER INCLUDE...

The preprocessor leaves no word of the checkers of all headers of the library, and some with -DGSHMEM_CHECK_ORDER.
"""
import re
import subprocess
import sys

compiler, *folders = sys.argv[1:]
CHECKERS = re.compile(r"\border::\w+|gshmemi_(?:order|note)_\w+|namespace gshmem::device::order\b")
for options, expected in (([], False), (["-DGSHMEM_CHECK_ORDER"], True), (["-fsanitize=thread"], True)):
    source = subprocess.run([compiler, "-std=c++20", "-E", "-P", *options, *[f"-I{folder}" for folder in folders], "-x", "c++", "-"],
                            input="#include <gshmem/gshmem.hpp>\n", capture_output=True, text=True, check=True).stdout
    found = sorted(set(CHECKERS.findall(source)))
    assert "gshmem_int_put" in source and bool(found) == expected, (options, found)
print("nothing without the option")
