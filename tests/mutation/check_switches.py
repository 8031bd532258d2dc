#!/usr/bin/env python3
"""Is a change that is switched on the change that is made in the text? Usage: check_switches.py CXX

One program has a copy of the sample for each of its places, changed in the text; another has the
sample with switches. What they say for some arguments must be the same.
"""
import os
import subprocess
import sys
import tempfile

import places
import switches

SAMPLE = """
inline int f(int a, int b) {
  constexpr int limits[] = {1, 2, 3, 7, 9};
  int sum = 7'000;
  bool odd = false;
  auto* first = &sum;
  if (!first || a == 100) return -1;
  for (int i = 0; i < 3; ++i) sum += limits[i];
  if (a < b && b > 1u || a == 4 && b != 5)
    sum += a * 3 + b % 5 - a / 2;
  else
    sum -= 11;
  const auto both = [&](int x) { return x <= a || (x >= b && x != 2); };
  for (int n = 9; --n;)
    if (sum > 7'016) sum -= 25;
  switch (b) {
    case 2:
      odd = true;
      break;
    default:
      ++sum;
  }
  if (const int c = a - b; c > 2) { sum += c; }
  if (both(3)) sum = sum + (odd ? 100 : 200);
  const char quote = b > 3 ? '"' : ' ';
  int bits = 8 | kFour | kTwo;
  return quote == '"' && sum >= 0 ? sum : sum * bits;
}
"""
BEFORE = """#include <cstdio>
#include <initializer_list>
inline constexpr int kFour = 4, kTwo = 2;
"""
CALLS = """for (int a : {-2, -1, 0, 1, 2, 3, 4, 5, 100})
  for (int b : {0, 1, 2, 3, 5, 7, 77}) std::printf("%d ", {}(a, b));
std::puts("");
"""


def program(folder, compiler, name, text):
    source, made = os.path.join(folder, name + ".cpp"), os.path.join(folder, name)
    with open(source, "w", encoding="utf-8") as file:
        file.write(text)
    subprocess.run([compiler, "-std=c++20", "-w", source, "-o", made], check=True)
    return made


def main():
    found = places.places("sample.cpp", SAMPLE)
    copies, left_out = [], set()
    switched = switches.switched(BEFORE + SAMPLE, places.places("sample.cpp", BEFORE + SAMPLE)[-len(found):],
                                 1000, left_out)
    # What the compiler knows already cannot be switched.
    known = {1000 + i for i, place in enumerate(found)
             if SAMPLE[:place.start].rsplit("\n", 1)[1].lstrip().startswith(("constexpr", "case"))}
    tried = [i for i in range(len(found)) if 1000 + i not in left_out | known]
    for i in tried:
        place = found[i]
        changed = SAMPLE[:place.start] + place.new + SAMPLE[place.end:]
        copies.append(changed.replace("int f(", f"int f{i}("))
    runs = "".join(CALLS.replace("{}", f"f{i}") for i in tried)
    with tempfile.TemporaryDirectory() as folder:
        plain = program(folder, sys.argv[1], "plain", BEFORE + "".join(copies) + f"int main() {{ {runs} }}\n")
        expected = subprocess.run([plain], capture_output=True, text=True, check=True).stdout.splitlines()
        one = program(folder, sys.argv[1], "switched",
                      switched + f"int main() {{ {CALLS.replace('{}', 'f')} }}\n")
        wrong = 0
        for i, line in zip(tried, expected):
            marks = os.path.join(folder, "marks")
            with open(marks, "wb") as file:
                file.truncate(1 << 16)
            said = subprocess.run([one], capture_output=True, text=True, check=True,
                                  env={**os.environ, "MUTATION_CHANGE": str(1000 + i),
                                       "MUTATION_REACHED": marks}).stdout
            with open(marks, "rb") as file:
                reached = file.read()[1000 + i] == 1
            if said.strip() != line.strip() or not reached:
                wrong += 1
                print(f"{found[i].operator}: {places.changed_lines(found[i], SAMPLE)}, reached: {reached}\n"
                      f"  in the text: {line}\n  switched on: {said}")
    print(f"{len(tried) - wrong} of {len(tried)} are the same, {len(found) - len(tried)} have no switch")
    return 1 if wrong or len({found[i].operator for i in tried}) < len(places.SIMPLE) + 2 else 0


if __name__ == "__main__":
    sys.exit(main())
