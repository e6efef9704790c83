"""What check_report.py must find, and must let pass, on pages made for it."""

import pathlib
import tempfile
import unittest

import check_report
import devtools

CHROMIUM = devtools.find_chromium()

GOOD_FIGURE = """<figure><svg width="200" height="100" viewBox="0 0 200 100"><rect width="200" height="100" fill="#fff"/>
<rect id="bar" x="20" y="20" width="60" height="60" fill="#0072b2"/><text x="20" y="95">label</text></svg>
<figcaption><strong>Figure 1.</strong> A bar. <span class="source">Made by <code>heed compare</code>, <span class="seeds">seed
0</span>, on <span class="machine">a machine</span>. Data: <a href="data.csv">CSV</a></span></figcaption></figure>"""

STYLE = """<style>body { background: #fff; color: #222 }
@media (prefers-color-scheme: dark) { body { background: #111; color: #eee } }
@media print { body { background: #fff; color: #000 } figure { break-inside: avoid } }</style>"""


@unittest.skipIf(CHROMIUM is None, "Chromium is not installed")
class CheckReportTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.browser = cls.enterClassContext(devtools.Browser(CHROMIUM))

    def problems(self, body, style=STYLE):
        with tempfile.TemporaryDirectory() as folder:
            report = pathlib.Path(folder) / "report & more.html"
            report.write_text("<!DOCTYPE html><title>t</title>" + style + body, encoding="utf-8")
            (report.parent / "data.csv").write_text("x,y\n", encoding="utf-8")
            return check_report.check(self.browser, report)

    def assert_found(self, expected, body, style=STYLE):
        problems = self.problems(body, style)
        self.assertTrue(any(expected in problem for problem in problems), f"{expected!r} not in {problems}")

    def test_a_good_page_has_no_problem(self):
        self.assertEqual(self.problems(GOOD_FIGURE), [])

    def test_console_errors_and_exceptions(self):
        self.assert_found("console error: ['broken']", GOOD_FIGURE + "<script>console.error('broken')</script>")
        self.assert_found("exception", GOOD_FIGURE + "<script>throw new Error('broken')</script>")

    def test_requests(self):
        self.assert_found("request: https://heed.invalid/a.png", GOOD_FIGURE + "<img src='https://heed.invalid/a.png'>")
        self.assert_found("data.csv", GOOD_FIGURE + "<link rel=stylesheet href=data.csv>")

    def test_figures_without_data_ink(self):
        axes = GOOD_FIGURE.replace("#0072b2", "#888888")
        self.assert_found("nothing to see", axes)
        self.assert_found("nothing to see", GOOD_FIGURE.replace('id="bar"', 'display="none"'))
        self.assert_found("no picture", "<figure><figcaption>None</figcaption></figure>")
        self.assert_found("0 figures", "<p>text</p>")

    def test_how_a_figure_was_made(self):
        for part, text in {
            "title": "<strong>Figure 1.</strong>",
            "caption": "A bar.",
            "command": "<code>heed compare</code>",
            "seeds": '<span class="seeds">seed\n0</span>',
            "machine": '<span class="machine">a machine</span>',
            "link to a CSV file": '<a href="data.csv">CSV</a>',
        }.items():
            self.assertIn(text, GOOD_FIGURE)
            self.assert_found(f": no {part}", GOOD_FIGURE.replace(text, ""))

    def test_paper(self):
        dark = STYLE.replace("@media print { body { background: #fff; color: #000 }", "@media print {")
        self.assert_found("print: paper is rgb(17, 17, 17)", GOOD_FIGURE, dark)
        self.assert_found("print: Figure 1.: may be torn", GOOD_FIGURE, STYLE.replace("break-inside: avoid", ""))

    def test_labels_that_are_cut_off(self):
        self.assert_found("'a label' is cut off", GOOD_FIGURE.replace('<text x="20" y="95">label', '<text x="180" y="95">a label'))

    def test_layout(self):
        self.assert_found("id 'bar' stands more than once", GOOD_FIGURE + GOOD_FIGURE)
        self.assert_found("pixels wide in a window", GOOD_FIGURE + "<div style='width: 3000px'>wide</div>")
        self.assert_found("hard to read", GOOD_FIGURE, "<style>body { background: #fff; color: #ccc }</style>")
        self.assert_found("although the reader prefers dark", GOOD_FIGURE, "<style>body { background: #fff; color: #000 }</style>")

    def test_links_without_a_file(self):
        self.assert_found("'absent.csv'", GOOD_FIGURE + "<a href='absent.csv'>CSV</a>")


if __name__ == "__main__":
    unittest.main()
