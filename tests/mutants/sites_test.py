"""The faults that are planted: each changes what the program does when it is chosen, and nothing when it is not."""

import itertools
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

import cpp_sites
import python_sites

CPP = """#include <algorithm>
#include <cstdio>
#include <vector>
namespace {
constexpr int kTwo = 1 + 1;
template <class T>
int Count(const std::vector<T>& v, int limit) {
  int count = 0;  // a < b
  const char* text = "1 + 1";
  if (text) count = 1;
  for (int i = 0; i < 3; ++i) count += i;
  if (limit > 2 && v.size() == 1 && *text == '1') count = std::min(count, limit);
  return count * kTwo;
}
}  // namespace
int main() {
  std::vector<int> v;
  v.push_back(5);
  std::printf("%d %zu\\n", Count(v, 9), v.size());
}
"""
PYTHON = '''"""A module."""
from __future__ import annotations


def count(items: list[int], limit: int = 1) -> str:
    total = sum(items) + 1
    if total > limit and items:
        items.append(0)
    return f"{total} {len(items)}"


print(count([1, 2]))
'''


class Planted(unittest.TestCase):
    def outputs(self, sites, text, run):
        """What is printed without a fault, with each, and with any two that are seen."""
        with tempfile.TemporaryDirectory() as folder:
            chosen = {}
            for site in sites:
                if not any(site.begin < other.end and other.begin < site.end and (site.begin, site.end) != (other.begin, other.end)
                           for other in chosen.values()):
                    chosen[len(chosen) + 1] = site
            command = run(pathlib.Path(folder), chosen)

            record = pathlib.Path(folder, "reached")
            record.write_bytes(bytes(1024))

            def printed(*faults):
                environment = os.environ | {"HEED_FAULT": ",".join(map(str, faults)), "HEED_FAULT_REACHED": str(record)}
                result = subprocess.run(command, env=environment, text=True, capture_output=True, check=False)
                return result.stdout if result.returncode == 0 else "an error"

            right, wrong = printed(), [printed(number) for number in chosen]
            seen = [number for number, text in enumerate(wrong, 1) if text != right]
            reached = {number for number, byte in enumerate(record.read_bytes()) if byte}
            self.assertTrue(set(seen) <= reached <= set(chosen))
            return right, wrong, {printed(*two) for two in itertools.combinations(seen, 2)}

    def test_in_cpp(self):
        compiler = shutil.which("c++")
        if compiler is None:
            self.skipTest("inductor needs a C++ compiler")
        sites = list(cpp_sites.sites("a.cc", CPP))
        self.assertEqual({site.line for site in sites}, {8, 10, 12, 13, 18, 19})

        def run(folder, chosen):
            (folder / "a.cc").write_text(cpp_sites.planted(CPP, chosen), encoding="utf-8")
            header = pathlib.Path(__file__).with_name("fault.h")
            subprocess.run([compiler, "-std=c++20", "-include", header, folder / "a.cc", "-o", folder / "a"], check=True)
            return [folder / "a"]

        right, wrong, pairs = self.outputs(sites, CPP, run)
        self.assertEqual(right, "8 1\n")
        self.assertTrue(pairs - {right, *wrong})
        self.assertGreaterEqual(sum(text != right for text in wrong), 4)

    def test_in_python(self):
        sites = python_sites.sites("a.py", PYTHON)

        def run(folder, chosen):
            (folder / "a.py").write_text(python_sites.planted(PYTHON, chosen), encoding="utf-8")
            return [sys.executable, folder / "a.py"]

        right, wrong, pairs = self.outputs(sites, PYTHON, run)
        self.assertEqual(right, "4 3\n")
        self.assertTrue(pairs - {right, *wrong})
        self.assertGreaterEqual(sum(text != right for text in wrong), 2)


if __name__ == "__main__":
    unittest.main()
