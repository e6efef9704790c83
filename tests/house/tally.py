"""What a run of the tests came to: reads the reports that ./dev test leaves in the build folder.

    python3 tally.py BUILD            skips with their reasons, then "N passed, N failed" as the last line
    python3 tally.py BUILD --times    the slowest tests and files of that run, and what stands on the wrong side of LONG seconds

Exit status 1 when a test failed, a report is missing, or a test was skipped for a reason that skips.py does not know.
"""

import collections
import pathlib
import sys
import xml.etree.ElementTree as xml
from dataclasses import dataclass

import skips

# A test that takes longer than this belongs among the long ones: the fast tier has eight minutes for all.
LONG = 20


@dataclass
class Case:
    file: str
    name: str
    seconds: float
    outcome: str  # passed, failed or skipped
    reason: str = ""


def _outcome(element):
    for tag, outcome in (("failure", "failed"), ("error", "failed"), ("skipped", "skipped")):
        found = element.find(tag)
        if found is not None:
            # CTest says there by which rule, and beside it what the test printed.
            return outcome, f"{found.get('message') or found.text or ''} {element.findtext('system-out') or ''}".strip()
    return "passed", ""


def cases_of(path, file=None):
    """The cases of a report in JUnit's form, which pytest, GoogleTest and CTest write alike but for the names of files."""
    for element in xml.parse(path).getroot().iter("testcase"):
        outcome, reason = _outcome(element)
        name = element.get("name", "")
        yield Case(file or element.get("classname", ""), name, float(element.get("time") or 0), outcome, reason)


def collect(build):
    """(cases, faults of the reports)."""
    cases, faults = [], []
    for name in ("ctest.xml", "pytest.xml"):
        path = build / name
        if not path.exists():
            faults.append(f"{path} is missing: the runner did not get as far as a report")
            continue
        for case in cases_of(path):
            of_gtest = build / "gtest" / f"{case.name}.xml"
            if name == "ctest.xml" and of_gtest.exists():
                inner = list(cases_of(of_gtest, case.name))
                cases += inner
                if case.outcome == "failed" and not any(one.outcome == "failed" for one in inner):
                    cases.append(case)  # it broke off
            else:
                if name == "ctest.xml":
                    case.file = case.name
                cases.append(case)
    return cases, faults


def print_times(cases):
    by_file = collections.Counter()
    for case in cases:
        by_file[case.file] += case.seconds
    total = sum(by_file.values())
    print(f"{total:.0f} seconds in {len(cases)} tests, which ran side by side; the files that took most:")
    for file, seconds in by_file.most_common(25):
        print(f"{seconds:8.1f}  {file}")
    print("the tests that took most:")
    for case in sorted(cases, key=lambda one: -one.seconds)[:25]:
        print(f"{case.seconds:8.1f}  {case.file}: {case.name}")
    slow = [case for case in cases if case.seconds > LONG]
    print(f"{len(slow)} took more than {LONG} s: in the fast tier, give such a test the mark or the label long")


def main():
    build = pathlib.Path(sys.argv[1])
    cases, faults = collect(build)
    if "--times" in sys.argv:
        print_times(cases)
        return
    skipped = [case for case in cases if case.outcome == "skipped"]
    unknown = [case for case in skipped if not skips.is_known(case.reason)]
    reasons = collections.Counter(" ".join(case.reason.split()) for case in skipped)
    for reason, count in reasons.most_common():
        print(f"{count} skipped: {reason}")
    for case in unknown:
        print(f"skipped without need (tests/house/skips.py): {case.file}: {case.name}: {case.reason}")
    for fault in faults:
        print(fault)
    failed = sum(case.outcome == "failed" for case in cases) + len(unknown) + len(faults)
    print(f"{sum(case.outcome == 'passed' for case in cases)} passed, {failed} failed")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
