"""tally.py, skips.py, changes.py and thin.py: what they must notice."""

import os
import pathlib
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

import changes
import skips
import tally
import thin

CTEST = '<testsuite><testcase name="lab.one" classname="lab.one" time="2" status="{status}">{inner}</testcase></testsuite>'
GTEST = '<testsuites><testsuite><testcase name="A" classname="Suite" time="1"/><testcase name="B" classname="Suite" time="1">{inner}</testcase></testsuite></testsuites>'
PYTEST = '<testsuites><testsuite><testcase classname="tests.one" name="test_a" time="30"/><testcase classname="tests.one" name="test_b" time="1">{inner}</testcase></testsuite></testsuites>'
FAILURE = '<failure message="broken"/>'


class Tally(unittest.TestCase):
    def run_on(self, ctest=CTEST.format(status="run", inner=""), gtest=GTEST.format(inner=""), pytest=PYTEST.format(inner=""), *options):
        """(exit status, lines) for these reports; None for one that is missing."""
        with tempfile.TemporaryDirectory() as folder:
            build = pathlib.Path(folder)
            (build / "gtest").mkdir()
            for name, text in (("ctest.xml", ctest), ("gtest/lab.one.xml", gtest), ("pytest.xml", pytest)):
                if text is not None:
                    (build / name).write_text(text, encoding="utf-8")
            result = subprocess.run([sys.executable, tally.__file__, build, *options], text=True, capture_output=True, check=False)
            return result.returncode, result.stdout.splitlines()

    def test_cases_are_counted_one_by_one(self):
        self.assertEqual(self.run_on(), (0, ["4 passed, 0 failed"]))

    def test_a_failure_of_each_kind_counts(self):
        for broken in ({"gtest": GTEST.format(inner=FAILURE), "ctest": CTEST.format(status="fail", inner=FAILURE)},
                       {"pytest": PYTEST.format(inner=FAILURE)}, {"pytest": PYTEST.format(inner='<error message="x"/>')}):
            status, lines = self.run_on(**broken)
            self.assertEqual((status, lines[-1]), (1, "3 passed, 1 failed"))

    def test_a_program_that_breaks_off_is_a_failure(self):
        """GoogleTest has then written no report, or one in which nothing failed."""
        broken = CTEST.format(status="fail", inner=FAILURE)
        self.assertEqual(self.run_on(ctest=broken, gtest=None), (1, ["2 passed, 1 failed"]))
        self.assertEqual(self.run_on(ctest=broken), (1, ["4 passed, 1 failed"]))

    def test_a_missing_report_is_a_failure(self):
        status, lines = self.run_on(pytest=None)
        self.assertEqual((status, lines[-1]), (1, "2 passed, 1 failed"))

    def test_a_skip_for_no_known_reason_is_a_failure(self):
        status, lines = self.run_on(pytest=PYTEST.format(inner='<skipped message="not today"/>'))
        self.assertEqual((status, lines[-1]), (1, "3 passed, 1 failed"))
        self.assertIn("skipped without need", lines[-2])

    def test_times_name_what_is_too_slow(self):
        status, lines = self.run_on(CTEST.format(status="run", inner=""), GTEST.format(inner=""), PYTEST.format(inner=""), "--times")
        self.assertEqual(status, 0)
        self.assertIn("    30.0  tests.one: test_a", lines)
        self.assertTrue(lines[-1].startswith("1 took more than 20 s"))


class Skips(unittest.TestCase):
    def test_a_reason_must_hold(self):
        with mock.patch.object(skips, "_processor", return_value={"avx2"}):
            self.assertTrue(skips.is_known("Skipped: needs oneDNN and AVX-512"))
        with mock.patch.object(skips, "_processor", return_value={"avx2", "avx512f"}):
            self.assertFalse(skips.is_known("Skipped: needs oneDNN and AVX-512"))
        self.assertFalse(skips.is_known("not today"))

    def test_in_ci_packages_are_there(self):
        holds = skips.without_package("a_package_that_nobody_has")
        with mock.patch.dict(os.environ):
            os.environ.pop("CI", None)
            self.assertTrue(holds())
            os.environ["CI"] = "true"
            self.assertFalse(holds())


class Changes(unittest.TestCase):
    def commit(self, folder, name, hours):
        (folder / name).write_text(name, encoding="utf-8")
        date = f"{1_700_000_000 + 3600 * hours} +0000"
        who = {"GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a", "GIT_COMMITTER_NAME": "a", "GIT_COMMITTER_EMAIL": "a"}
        for command in (["add", "."], ["commit", "-q", "-m", name]):
            subprocess.run(["git", *command], cwd=folder, check=True,
                           env=os.environ | who | {"GIT_COMMITTER_DATE": date, "GIT_AUTHOR_DATE": date})

    def test_what_landed_together_and_what_is_not_committed_has_changed(self):
        with tempfile.TemporaryDirectory() as name, mock.patch.dict(os.environ):
            os.environ.pop("HEED_BASE", None)
            folder = pathlib.Path(name)
            subprocess.run(["git", "init", "-q", folder], check=True)
            with mock.patch.object(changes, "ROOT", folder):
                self.commit(folder, "first", 0)
                self.assertIsNone(changes.changed_files())
                self.commit(folder, "second", 20)
                self.commit(folder, "third", 21)
                (folder / "fourth").touch()
                self.assertEqual(changes.changed_files(), {pathlib.Path("second"), pathlib.Path("third"), pathlib.Path("fourth")})
                os.environ["HEED_BASE"] = "HEAD~1"
                self.assertEqual(changes.changed_files(), {pathlib.Path("third"), pathlib.Path("fourth")})

    def test_each_page_has_its_turn_in_one_of_three_commits(self):
        names = [f"page {number}" for number in range(20)]
        turns = []
        for newest in ("0c", "0d", "0e", "0c"):
            with mock.patch.object(changes, "_git", return_value=newest):
                turns.append(changes.third(names))
        self.assertEqual(set().union(*turns), set(names))
        self.assertEqual(sum(map(len, turns[:3])), len(names))
        self.assertEqual(turns[0], turns[3])
        with mock.patch.object(changes, "_git", return_value=None):
            self.assertEqual(changes.third(names), set(names))

    def test_a_source_that_only_moved_has_not_changed(self):
        body = "".join(f"int number_{x} = {x};\n" for x in range(20))
        header = "// A page.\n#ifndef {0}\n#define {0}\n\n#include \"{1}\"\n\n{2}\n#endif  // {0}\n"
        with tempfile.TemporaryDirectory() as name, mock.patch.dict(os.environ, {"HEED_BASE": "HEAD~1"}):
            folder = pathlib.Path(name)
            subprocess.run(["git", "init", "-q", folder], check=True)
            for kind in ("page.h", "line.h"):
                (folder / kind).write_text(header.format("HEED_OLD", "old/text.h", f"// {kind}\n{body}"), encoding="utf-8")
            self.commit(folder, "first", 0)
            (folder / "new").mkdir()
            (folder / "page.h").unlink()
            (folder / "line.h").unlink()
            (folder / "new/page.h").write_text(header.format("HEED_NEW", "new/text.h", f"// page.h\n{body}"), encoding="utf-8")
            (folder / "new/line.h").write_text(header.format("HEED_NEW", "new/text.h", f"// line.h\n{body}int more;\n"), encoding="utf-8")
            self.commit(folder, "second", 1)
            with mock.patch.object(changes, "ROOT", folder):
                self.assertEqual(changes.changed_files(), {pathlib.Path("new/line.h"), pathlib.Path("second")})


class Thin(unittest.TestCase):
    def test_each_test_and_twice_each_word_are_kept(self):
        names = [f"f.py::test_{test}[{scheme}-{count}]" for test in "abc" for scheme in ("t5", "shaw", "cope", "fire") for count in (1, 2, 3)]
        kept = [thin.parts(name) for name in thin.kept([*names, "f.py::test_alone"])]
        self.assertEqual({test for test, _ in kept}, {"f.py::test_a", "f.py::test_b", "f.py::test_c", "f.py::test_alone"})
        words = [word for _, own in kept for word in own]
        self.assertEqual({word: words.count(word) >= 2 for word in words}, dict.fromkeys(("t5", "shaw", "cope", "fire", "1", "2", "3"), True))
        self.assertLessEqual(len(kept), 10)

    def test_a_word_of_one_case_keeps_it(self):
        names = ["f.py::test[one]", "f.py::test[two]"]
        self.assertEqual(thin.kept(names), set(names))


if __name__ == "__main__":
    unittest.main()
