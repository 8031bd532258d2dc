#!/usr/bin/env python3
"""Feeds lint.py small trees: one violation of each kind must be reported, and nothing else."""
import contextlib
import io
import os
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
import lint  # noqa: E402 (beside this file)

MARK = "TO" + "DO"
ONCE = "#pragma once\n"

# Rule, path, content: each file breaks the one rule once.
VIOLATIONS = [
    ("top-level", "scripts/x.txt", ""),
    ("include-direction", "include/gshmem/abi/a.h", ONCE + "#include <gshmem/device/network/queue.h>\n"),
    ("include-direction", "include/gshmem/b.h", ONCE + '#include "host/base/log.h"\n'),
    ("include-direction", "device/core/c.h", ONCE + '#include "transport/nic/nic.h"\n'),
    ("include-direction", "device/core/c2.h", ONCE + '#include "../network/queue.h"\n'),
    ("include-direction", "device/c3.h", ONCE + '#include "core/machine.h"\n'),
    ("include-direction", "transport/softnic/c4.h", ONCE + '#include "transport/nic/nic.h"\n'),
    ("include-direction", "transport/nic/c5.cpp", '#include "transport/softnic/c4.h"\n'),
    ("include-direction", "transport/d.cpp", '#include "host/runtime/heap/allocator.h"\n'),
    ("include-direction", "transport/d2.cpp", '#include "bootstrap/bootstrap.h"\n'),
    ("include-direction", "transport/nic/d3.cpp", '#include "host/control/plane.h"\n'),
    ("include-direction", "host/control/d4.cpp", '#include "bootstrap/uid/job.h"\n'),
    ("include-direction", "bootstrap/d5.cpp", '#include "host/control/plane.h"\n'),
    ("include-direction", "bootstrap/e.cpp", "#include <gshmem/gshmem.h>\n"),
    ("include-direction", "host/base/f.cpp", '#include "../runtime/heap/allocator.h"\n'),
    ("include-direction", "host/f2.cpp", '#include "tests/unit/model.h"\n'),
    ("include-direction", "examples/g.cu", "#include <gshmem/device/network/queue.h>\n"),
    ("include-direction", "examples/g2.cpp", "#include <gshmem/abi/state.h>\n"),
    ("include-direction", "perftest/g3.cpp", '#include "host/base/log.h"\n'),
    ("getenv", "host/h.cpp", 'auto x = getenv("A");\n'),
    ("getenv", "perftest/h2.cpp", "extern char** environ;\n"),
    ("dlopen", "bootstrap/i.cpp", "void* x = dlopen(0, 0);\n"),
    ("vendor-header", "host/j.cpp", "#include <infiniband/verbs.h>\n"),
    ("vendor-header", "bootstrap/k.cpp", "#include <pmix.h>\n"),
    ("vendor-header", "perftest/l.cpp", "#include <mpi.h>\n"),
    ("vendor-header", "transport/nic/m.cpp", "#  include <rdma/fabric.h>\n"),
    ("vendor-header", "device/n.h", "// The CUDA driver.\n" + ONCE + "#include <cuda.h>\n"),
    ("vendor-reason", "host/o.h", ONCE + "#include <cuda.h>\n"),
    ("std-include", "host/o2.cpp", "#include <map>\nstd::vector<int> x;\n"),
    ("std-include", "tests/o3.cpp", "int x = std::max(1, 2);\n"),
    ("std-include", "transport/o4.h", ONCE + "#include <memory>\nstd::uint16_t x;\n"),
    ("pragma-once", "host/p.h", "int x();\n"),
    ("pragma-once", "include/gshmem/p.hpp", "// #pragma once\n"),
    ("volatile", "host/q.cpp", "volatile int x;\n"),
    ("asm", "device/r.h", ONCE + 'inline void f() { asm(""); }\n'),
    ("asm", "host/r2.cpp", 'void f() { __asm__(""); }\n'),
    ("__device__", "device/s.h", ONCE + "__device__ int f();\n"),
    ("catch", "tests/s2.cpp", 'auto x = Catch::Equals("");\n'),
    ("length", "host/t.cpp", "\n" * 601),
    ("behind", "host/v.cpp", "int a;  // Reads what lies\n        // behind it.\n"),
    ("behind", "include/gshmem/v.def", "/* Behind. */\n"),
    ("the-same", "device/w.h", ONCE + "int a();  // One.\n\n/// The same, two.\nint b();\n"),
    ("the-same", "tests/w.cpp", "int a;  ///< The same\n"),
    ("lest", "transport/x.cpp", "// Lest not; lest it fails.\n"),
    ("stale-name", "tests/n1.cpp", "// Continues in post_late, not in ibv_post_send.\n"),
    ("repeated-name", "transport/p2p/log.h", ONCE),
    ("unfinished", "host/u.cpp", f"// {MARK}: later\n"),
    ("unfinished", "tests/CMakeLists.txt", "# FIX" + "ME\n"),
    ("split-compile", "perftest/CMakeLists.txt", "set(flags --split-compile=0)\n"),
]

# Text that looks like a violation and is none.
CLEAN = {
    "README.md": f"{MARK} volatile\n",
    ".hidden": "",
    "build/x/y.h": "volatile int x;\n",
    "include/gshmem/gshmem.h": ONCE + "#include <gshmem/device/network/queue.h>\n",
    "include/gshmem/compat/nvshmem.h": ONCE + "#include <gshmem/gshmem.h>\n",
    "include/gshmem/compat/host/nvshmem_api.h": ONCE,
    "include/gshmem/abi/state.h": ONCE + "#include <cstdint>\n",
    "device/core/machine.h": ONCE + '#include "machine_gpu.h"\n',
    "device/network/queue.h": ONCE + '#include "device/core/machine.h"\n#include <gshmem/abi/state.h>\n',
    "device/core/machine_gpu.h": ONCE + '__device__ inline void f() { asm volatile("fence;"); }\n',
    "transport/nic/nic.h": ONCE + "#include <gshmem/abi/state.h>\n",
    "transport/nic/mlx5/x.cpp": "#include <infiniband/verbs.h>\n",
    "transport/ofi/x.cpp": "#include <rdma/fabric.h>\n",
    "bootstrap/bootstrap.h": ONCE + '#include "host/base/log.h"\n',
    "bootstrap/uid/job.h": ONCE,
    "host/control/plane.h": ONCE + '#include "bootstrap/bootstrap.h"\n#include "host/base/log.h"\n',
    "transport/p2p/window.h": ONCE + '#include "host/control/plane.h"\n',
    "bootstrap/pmix/x.cpp": '#include <pmix.h>\n#include "../bootstrap.h"\n',
    "bootstrap/mpi.cpp": "#include <mpi.h>\n",
    "host/base/log.h": ONCE,
    "host/base/config.cpp": 'auto x = getenv("A");\n',
    "host/base/dynamic_library.cpp": "void* x = dlopen(0, 0);\n",
    "host/base/cuda.h": "// Loads the CUDA driver.\n" + ONCE + "#include <cuda.h>\n",
    "host/runtime/heap/allocator.h": ONCE,
    "host/words.cpp": '// volatile asm\n/* getenv */ auto a = "dlopen"; auto b = R"(asm)";\n'
                      f"int c = 1'000; int getenv_count; // {MARK}(#12): number\n"
                      "char d = '\"'; /* volatile\n__device__ */ char e = '\\'';\n",
    "host/prose.cpp": 'int behind = 0;  // `behind` is a name here.\n// Of one text.\n// The same in its middle.\n'
                      'auto a = "behind";\n',
    "host/all.cpp": '#include "transport/nic/nic.h"\n#include "bootstrap/bootstrap.h"\n'
                    "#include <gshmem/gshmem.h>\n",
    "host/long.cpp": "\n" * 600,
    "host/std.h": ONCE + "#include <vector>\n",
    "host/std.cpp": '#include "host/std.h"\n#include <map>\nstd::vector<int> a; std::pair<int, int> b;\n',
    "examples/x.cu": '#include <gshmem/gshmem.h>\n#include <nvshmem.h>\n#include "x.h"\n'
                     '#include <host/nvshmem_api.h>\n#include <mpi.h>\n'
                     '__device__ int g; auto x = getenv("A");\n',
    "examples/x.h": ONCE,
    "tests/unit/model.h": ONCE + '#include "host/runtime/heap/allocator.h"\n#include "x.h"\n',
    "tests/x.cpp": 'auto x = getenv("A");\n#include <cuda.h>\n',
    "CMakeLists.txt": "",
}


class LintTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = folder.name

    def write(self, path, content):
        path = os.path.join(self.root, path)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(content)

    def findings(self):
        self.printed = io.StringIO()
        with contextlib.redirect_stdout(self.printed):
            return lint.check(self.root)

    def found(self):
        return [(f.rule, f.path) for f in self.findings()]

    def test_a_clean_tree_has_no_violation(self):
        for path, content in CLEAN.items():
            self.write(path, content)
        self.assertEqual(self.found(), [])
        self.assertIn("host/long.cpp: warning: 600 lines", self.printed.getvalue())

    def test_each_violation_is_reported_once(self):
        for path, content in CLEAN.items():
            self.write(path, content)
        for _, path, content in VIOLATIONS:
            self.write(path, content)
        expected = [(rule, path.split("/")[0] if rule == "top-level" else path)
                    for rule, path, _ in VIOLATIONS]
        self.assertEqual(sorted(self.found()), sorted(expected))

    def test_comments_without_a_subject_may_not_grow(self):
        self.write("host/a.cpp", "// Of a queue.\nint a;\n\nint b;  ///< What it is\n\n// Official: a subject.\n")
        most, lint.SUBJECTLESS_AT_MOST = lint.SUBJECTLESS_AT_MOST, 1
        self.addCleanup(setattr, lint, "SUBJECTLESS_AT_MOST", most)
        self.assertEqual(self.found(), [("subject", "host/a.cpp")])

    def test_subjects_of_commits_name_an_area_and_one_change(self):
        git = ["git", "-C", self.root, "-c", "user.name=a", "-c", "user.email=a@b"]
        subprocess.run([*git, "init", "-q"], check=True)
        for subject in ("ofi: send messages outside the lock", "tests/nic, docs: share the fixture", "Improve things",
                        "host: one; two", "docs: " + "x" * 67):
            subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", subject], check=True)
        self.assertEqual([f.rule for f in lint.check_subjects(self.root, "2000-01-01")], ["commit-subject"] * 3)

    def test_every_rule_of_the_tables_has_a_violation_here(self):
        rules = {rule for rule, _, _ in lint.WORDS + lint.PROSE}
        self.assertLessEqual(rules, {rule for rule, _, _ in VIOLATIONS})

    def test_the_line_of_a_violation_is_right(self):
        self.write("host/x.cpp", "/* a\n b */\n\nvolatile int x;\n")
        self.assertEqual([f.line for f in self.findings()], [4])

    def test_the_program_fails_and_names_the_place(self):
        self.write("host/x.cpp", "volatile int x;\n")
        program = os.path.join(os.path.dirname(os.path.abspath(lint.__file__)), "lint.py")
        run = subprocess.run([sys.executable, program, self.root], capture_output=True, text=True)
        self.assertEqual(run.returncode, 1)
        self.assertIn("host/x.cpp:1: volatile:", run.stdout)
        os.remove(os.path.join(self.root, "host/x.cpp"))
        self.assertEqual(subprocess.run([sys.executable, program, self.root],
                                        stdout=subprocess.DEVNULL).returncode, 0)


if __name__ == "__main__":
    unittest.main()
