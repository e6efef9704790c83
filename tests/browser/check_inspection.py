"""Opens a page of `heed inspect` in headless Chromium and uses it as a reader would.

    python tests/browser/check_inspection.py PAGE.html [--least-bin N]

Every thumbnail and every map is drawn, pointing, clicking and keys do what the page says, what it lists and saves are the
weights in the page's data, nothing is wider than the window, no error in the console, no request beyond the page itself. Prints
the times to the first paint and from pointing to the drawn frame, which it holds against five times what is promised: 2 s and
100 ms. Exit 0 without problems, 1 with, 77 without Chromium.
"""

import argparse
import array
import base64
import json
import pathlib
import re
import statistics
import sys
import tempfile
import time
import zlib

import check_report
import devtools

MARGIN = 5  # for a machine that has other things to do
FIRST_PAINT_S = 2.0
HOVER_S = 0.1
MOST_BYTES = 30 << 20

LIGHT_WIDE = {"scheme": "light", "width": 1280}
DARK_NARROW = {"scheme": "dark", "width": 400}

READY = """
new Promise(resolve => {
  const count = name => performance.getEntriesByName(name).length;
  const look = () => count('map-drawn') > %d && count('first-contentful-paint') > 0 ? resolve(true) : setTimeout(look, 20);
  look();
})
"""

TIMES = """
(() => {
  const at = name => { const entry = performance.getEntriesByName(name)[0]; return entry ? entry.startTime : null; };
  return {paint: at('first-contentful-paint'), heads: at('heads-drawn'), map: at('map-drawn')};
})()
"""

# How many colours a canvas shows, and a sum that tells pictures apart.
CANVASES = """
[...document.querySelectorAll('%s')].map(canvas => {
  const pixels = new Uint32Array(canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data.buffer);
  let sum = 0;
  for (let i = 0; i < pixels.length; i++) sum = (sum * 31 + pixels[i]) >>> 0;
  return {colours: new Set(pixels).size, sum, width: canvas.width};
})
"""

# Points at tokens all over the text; milliseconds from the event until the frame is laid out.
HOVER = """
(async () => {
  const times = [];
  for (let i = 0; i < 20; i++) {
    const token = document.getElementById('token-' + Math.floor((characters.length - 1) * ((i * 7) % 20) / 19));
    const start = performance.now();
    token.dispatchEvent(new PointerEvent('pointermove', {bubbles: true}));
    await new Promise(requestAnimationFrame);
    document.body.getBoundingClientRect();
    times.push(performance.now() - start);
  }
  return times;
})()
"""

LOOK = """
(() => {
  const selected = [...document.querySelectorAll('.token[aria-selected=true]')];
  const list = id => [...document.querySelectorAll('#' + id + ' .entry')].map(entry =>
    ({token: Number(entry.title.slice(6)), weight: entry.querySelector('.weight').textContent}));
  return {
    selected: selected.map(span => span.token),
    kept: selected.some(span => span.classList.contains('kept')),
    shades: [...document.querySelectorAll('.token')].map(span => parseInt(span.style.getPropertyValue('--weight') || '0')),
    keys: list('keys'), queries: list('queries'),
    title: document.getElementById('map-title').textContent,
    readout: document.getElementById('readout').textContent,
    range: document.getElementById('map-range').textContent,
    alert: document.getElementById('alert').hidden ? null : document.getElementById('alert').textContent,
    width: document.documentElement.scrollWidth, window: innerWidth,
    ink: getComputedStyle(document.body).color, page: getComputedStyle(document.body).backgroundColor,
    unnamed: [...document.querySelectorAll('button, input, canvas[tabindex], [role=listbox]')].filter(e =>
      !(e.textContent.trim() || e.ariaLabel || e.getAttribute('aria-labelledby') || (e.labels && e.labels.length))).length,
  };
})()
"""


# Whether the middle of each cell that is not hidden has the colour of a place beside it, at the closest zoom.
EVEN_CELLS = """
(() => {
  const canvas = document.getElementById('map'), context = canvas.getContext('2d');
  const {row, column, span} = mapView.window, size = canvas.width / span;
  const colour = (x, y) => context.getImageData(Math.floor(x), Math.floor(y), 1, 1).data.join();
  for (let r = 0; r < span; r++) {
    for (let c = 0; c < span; c++) {
      if (numbers.causal && column + c > row + r) continue;
      if (colour((c + 0.5) * size, (r + 0.5) * size) !== colour((c + 0.7) * size, (r + 0.3) * size)) return false;
    }
  }
  return span <= 16;
})()
"""


IN_SIGHT = """
(() => {
  const token = document.getElementById('token-%d').getBoundingClientRect(), text = document.getElementById('text').getBoundingClientRect();
  return token.top >= text.top && token.bottom <= text.bottom;
})()
"""


class Data:
    """What a page holds, read without its script."""

    def __init__(self, page):
        text = page.read_text(encoding="utf-8")
        element = lambda name: re.search(rf'id="{name}">([^<]*)</script>', text).group(1)  # noqa: E731
        self.numbers = json.loads(element("numbers"))
        self.cells = self.numbers["cells"]
        self.causal = self.numbers["causal"]
        self.bin = self.numbers["bin"]
        self.maps = [zlib.decompress(base64.b64decode(element(f"map-{m['layer']}-{m['head']}"))) for m in self.numbers["maps"]]

    def cell_of(self, token):
        return 0 if token == 0 else 1 + (token - 1) // self.bin

    def first_token(self, cell):
        return 0 if cell == 0 else 1 + (cell - 1) * self.bin

    def weight(self, index, row, column):
        if self.causal and column > row:
            return 0.0
        code = self.maps[index][(row * (row + 1) // 2 if self.causal else row * self.cells) + column]
        return 2.0 ** ((code - 255) / self.numbers["stepsPerOctave"]) if code else 0.0

    def row(self, index, row):
        return [self.weight(index, row, column) for column in range(self.cells)]

    def column(self, index, column):
        return [self.weight(index, row, column) for row in range(self.cells)]


def share(text):
    return float(text.split()[0]) / 100


class Visit:
    """One page in one view. `problems` grows as checks fail."""

    def __init__(self, browser, page, view):
        self.browser, self.page, self.view, self.problems = browser, page, view, []
        self.data = Data(page)
        self.session = browser.open_tab()
        for domain in ("Page", "Runtime", "Log", "Network"):
            browser.send(domain + ".enable", self.session)
        browser.send("Emulation.setDeviceMetricsOverride", self.session, width=view["width"], height=900, deviceScaleFactor=1, mobile=False)
        browser.send("Emulation.setEmulatedMedia", self.session, features=[{"name": "prefers-color-scheme", "value": view["scheme"]}])
        browser.send("Page.navigate", self.session, url=page.resolve().as_uri())
        browser.wait_for("Page.loadEventFired", self.session)
        self.evaluate(READY % 0)

    def evaluate(self, expression):
        return self.browser.evaluate(self.session, expression)

    def expect(self, condition, problem):
        if not condition:
            self.problems.append(f"{self.page.name}, {self.view['scheme']}: {problem}")

    def look(self):
        self.evaluate("new Promise(resolve => requestAnimationFrame(() => setTimeout(resolve)))")
        return self.evaluate(LOOK)

    def canvases(self, selector):
        return self.evaluate(CANVASES % selector)

    def click(self, selector):
        self.evaluate(f"document.querySelector({json.dumps(selector)}).click()")

    def choose(self, index):
        """Clicks a thumbnail and waits for its map."""
        drawn = self.evaluate("performance.getEntriesByName('map-drawn').length")
        self.evaluate(f"document.querySelectorAll('.head')[{index}].click()")
        self.evaluate(READY % drawn)

    def press(self, key):
        for kind in ("keyDown", "keyUp"):
            self.browser.send("Input.dispatchKeyEvent", self.session, type=kind, key=key)

    def mouse(self, kind, selector, x=0.5, y=0.5, **more):
        """A pointer event of the browser itself, at a place within an element."""
        box = self.evaluate(
            "(() => { const e = document.querySelector(%s); e.scrollIntoView({block: 'center'}); const r = e.getBoundingClientRect();"
            " return {x: r.x, y: r.y, width: r.width, height: r.height}; })()" % json.dumps(selector))
        self.browser.send("Input.dispatchMouseEvent", self.session, type=kind, x=box["x"] + x * box["width"], y=box["y"] + y * box["height"], **more)


def check_times(visit, say):
    times = visit.evaluate(TIMES)
    say(f"  first paint {times['paint']:.0f} ms, all heads drawn {times['heads']:.0f} ms, first map drawn {times['map']:.0f} ms")
    visit.expect(times["paint"] < 1000 * MARGIN * FIRST_PAINT_S, f"the first paint took {times['paint']:.0f} ms")
    hovers = visit.evaluate(HOVER)
    say(f"  pointing at a token: median {statistics.median(hovers):.0f} ms, slowest {max(hovers):.0f} ms")
    visit.expect(statistics.median(hovers) < 1000 * MARGIN * HOVER_S, f"pointing at a token took {statistics.median(hovers):.0f} ms")


def check_heads(visit):
    """Every thumbnail, and every map on a click."""
    count = len(visit.data.maps)
    thumbnails = visit.canvases(".head canvas")
    visit.expect(len(thumbnails) == count, f"{len(thumbnails)} thumbnails for {count} heads")
    for i, canvas in enumerate(thumbnails):
        visit.expect(canvas["colours"] > 8, f"thumbnail {i} shows {canvas['colours']} colours")
    visit.expect(len({canvas["sum"] for canvas in thumbnails}) == count, "two thumbnails are the same picture")
    sums = set()
    for i in range(count):
        visit.choose(i)
        canvas = visit.canvases("#map")[0]
        visit.expect(canvas["colours"] > 8, f"map {i} shows {canvas['colours']} colours")
        sums.add(canvas["sum"])
        place = visit.data.numbers["maps"][i]
        visit.expect(visit.look()["title"] == f"Layer {place['layer']}, head {place['head']}", f"map {i} has another title")
    visit.expect(len(sums) == count, "two maps are the same picture")
    visit.choose(0)


def check_list(visit, entries, weights, what):
    """The entries are the largest of `weights`, in order."""
    data = visit.data
    largest = sorted(filter(None, weights), reverse=True)[:8]
    visit.expect(len(entries) == len(largest), f"{what}: {len(entries)} entries for {len(largest)} weights")
    for entry, weight in zip(entries, largest):
        own = weights[data.cell_of(entry["token"])]
        # Two digits are shown.
        visit.expect(abs(own - weight) <= 1e-9 and abs(share(entry["weight"]) / weight - 1) < 0.06, f"{what}: {entry} where {weight} is due")


def check_pointing(visit):
    """Real pointer events on the text: shading, lists, keeping and letting go."""
    data, tokens = visit.data, len(visit.data.numbers["text"])
    token = tokens // 2
    visit.mouse("mouseMoved", f"#token-{token}")
    look = visit.look()
    cell = data.cell_of(token)
    visit.expect(look["selected"] == [token], f"pointing at {token} selects {look['selected']}")
    row, column = data.row(0, cell), data.column(0, cell)
    check_list(visit, look["keys"], row, f"keys of {token}")
    check_list(visit, look["queries"], column, f"queries of {token}")
    strongest = max(range(data.cells), key=row.__getitem__)
    visit.expect(look["shades"][data.first_token(strongest)] == 100, "the strongest key is not shaded in full")
    if data.causal:
        end = data.first_token(cell + 1) if cell + 1 < data.cells else tokens
        visit.expect(not any(look["shades"][end:]), "tokens that causality hides are shaded")
    visit.click("input[value=queries]")
    shades = visit.look()["shades"]
    strongest = max(range(data.cells), key=column.__getitem__)
    visit.expect(shades[data.first_token(strongest)] == 100, "the strongest query is not shaded in full")
    visit.click("input[value=keys]")
    for kind in ("mousePressed", "mouseReleased"):
        visit.mouse(kind, f"#token-{token}", button="left", clickCount=1)
    visit.mouse("mouseMoved", f"#token-{token - 3}")
    look = visit.look()
    visit.expect(look["selected"] == [token] and look["kept"], "a click does not keep the token")


def check_keys(visit):
    """The keyboard on the text and on the map. Begins with a token kept."""
    token, last = visit.look()["selected"][0], len(visit.data.numbers["text"]) - 1
    visit.evaluate("document.getElementById('text').focus()")
    visit.press("ArrowRight")
    visit.expect(visit.look()["selected"] == [token + 1], "an arrow key does not move along the text")
    visit.press("Escape")
    visit.press("ArrowDown")
    below = visit.look()
    visit.expect(below["selected"][0] > token + 1 and not below["kept"], "the arrow down does not move to the next line")
    # The text scrolls below the pointer, which rests on it: that is no pointing.
    visit.mouse("mouseMoved", "#text")
    for key, place in (("Home", 0), ("End", last)):
        visit.press(key)
        for _ in range(4):  # the browser thinks of the pointer some frames later
            visit.look()
            time.sleep(0.05)
        visit.expect(visit.look()["selected"] == [place], f"{key} does not hold against a pointer at rest")
        visit.expect(visit.evaluate(IN_SIGHT % place), f"the token that {key} selects is out of sight")
    visit.evaluate("document.getElementById('map').focus()")
    before = visit.look()["range"]
    visit.press("+")
    visit.expect(visit.look()["range"] != before, "+ does not zoom the map")
    visit.expect(visit.canvases("#map")[0]["colours"] > 8, "the zoomed map is empty")
    visit.press("ArrowUp")
    visit.press("ArrowLeft")
    look = visit.look()
    visit.expect(look["selected"] == [visit.data.first_token(visit.data.cells - 2)], f"arrows on the map select {look['selected']}")
    visit.expect("gives key" in look["readout"], f"arrows on the map read out '{look['readout']}'")
    for _ in range(12):
        visit.press("+")
    visit.expect(visit.evaluate(EVEN_CELLS), "the cells of the zoomed map are not of one colour each")
    visit.click("#zoom-whole")
    visit.expect(visit.look()["range"] == before, "the whole map does not come back")


def check_map_pointer(visit):
    cells = visit.data.cells
    visit.mouse("mouseMoved", "#map", 0.25, 0.75)
    look = visit.look()
    visit.expect(abs(visit.data.cell_of(look["selected"][0]) - 0.75 * cells) <= 1 + cells / 100, f"pointing at the map selects {look['selected']}")
    visit.expect("gives key" in look["readout"], f"pointing at the map reads out '{look['readout']}'")
    if visit.data.causal:
        visit.mouse("mouseMoved", "#map", 0.75, 0.25)
        visit.expect("does not see" in visit.look()["readout"], "a hidden cell reads out a weight")


def check_options(visit):
    for option in ("#logarithmic", "#without-first") + (("#mark-mask",) if visit.data.causal else ()):
        before = visit.canvases("#map")[0]["sum"], [canvas["sum"] for canvas in visit.canvases(".head canvas")]
        visit.click(option)
        after = visit.canvases("#map")[0]["sum"], [canvas["sum"] for canvas in visit.canvases(".head canvas")]
        visit.expect(before[0] != after[0] and before[1] != after[1], f"{option} changes nothing")
    # The head and the row, near the start, where the first token has the largest share of all.
    cells = range(1, min(20, visit.data.cells))
    index, cell = max(((i, c) for i in range(len(visit.data.maps)) for c in cells), key=lambda at: visit.data.weight(*at, 0))
    row = visit.data.row(index, cell)
    rest = sum(row[1:])
    visit.expect(0 < rest < 0.9, f"the first token's share is {1 - rest}, which proves little")
    visit.choose(index)
    visit.evaluate("document.getElementById('token-%d').dispatchEvent(new PointerEvent('pointermove', {bubbles: true}))" % visit.data.first_token(cell))
    look = visit.look()
    check_list(visit, look["keys"], [0.0] + [weight / rest for weight in row[1:]], "keys without the first token")
    visit.expect("left out" in look["readout"], "the first token is left out without a word")
    for option in ("#logarithmic", "#without-first"):
        visit.click(option)
    visit.choose(0)
    layer = visit.data.numbers["layers"][0]
    visit.click(f"#layer-filter input[value='{layer}']")
    shown = visit.evaluate("[...document.querySelectorAll('.head')].filter(e => !e.hidden).map(e => e.map.layer)")
    visit.expect(shown and layer not in shown, f"the filter of layers leaves {shown}")
    visit.expect(visit.evaluate("[...document.querySelectorAll('.layer')].filter(e => e.hidden).length") == 1, "the filter leaves an empty row")
    visit.click(f"#layer-filter input[value='{layer}']")
    visit.click("th button[data-by=entropy]")
    column = visit.evaluate("[...document.querySelectorAll('#statistics tbody tr')].map(row => Number(row.cells[1].textContent))")
    visit.expect(column == sorted(column, reverse=True), "the table is not sorted by entropy")


def check_characters(visit):
    """Every character is visible, and none is what it pretends to be."""
    shown = visit.evaluate("[...document.querySelectorAll('.token')].map(span => span.textContent)")
    text = visit.data.numbers["text"]
    expected = {"\n": "⏎\n", "\t": "⇥", "\u202e": "U+202E", "\u2069": "U+2069", "\u00a0": "U+00A0", "\u200d": "U+200D", "\u0301": "◌\u0301"}
    visit.expect(shown == [expected.get(character, character) for character in text], "characters are not shown as they should be")
    line = text.index("\n") + 1
    boxes = visit.evaluate("[...document.querySelectorAll('.token')].slice(0, %d).map(span => { const r = span.getBoundingClientRect();"
                           " return {x: r.x, y: r.y, width: r.width}; })" % line)
    visit.expect(all(box["width"] > 0 for box in boxes), "a character has no width")
    turned = [i for i, (left, right) in enumerate(zip(boxes, boxes[1:])) if left["x"] >= right["x"] and left["y"] >= right["y"] - 4]
    visit.expect(not turned, f"characters {turned} stand after their successors")
    visit.expect(visit.evaluate("document.scripts.length") <= 3 + len(visit.data.maps), "text became a script")


def check_layout(visit):
    look = visit.look()
    visit.expect(look["alert"] is None, f"the page says '{look['alert']}'")
    visit.expect(look["width"] <= look["window"] + 1, f"the page is {look['width']} pixels wide in a window of {look['window']}")
    ink, page = check_report.luminance(look["ink"]), check_report.luminance(look["page"])
    visit.expect((max(ink, page) + 0.05) / (min(ink, page) + 0.05) >= check_report.LEAST_CONTRAST, "text is hard to read")
    visit.expect((page < 0.5) == (visit.view["scheme"] == "dark"), f"the page is {look['page']} although the reader prefers {visit.view['scheme']}")
    nothing = visit.evaluate("(value => [value & 255, value >> 8 & 255, value >> 16 & 255])(palette().ramp[0])")
    visit.expect(abs(check_report.luminance(f"rgb({nothing[0]}, {nothing[1]}, {nothing[2]})") - page) < 0.01, f"maps are drawn for another scheme: nothing is {nothing}")
    visit.expect(look["unnamed"] == 0, f"{look['unnamed']} controls have no name")
    problems = [*check_report.console_problems(visit.browser.events, visit.session),
                *check_report.request_problems(visit.browser.events, visit.session, visit.page.resolve().as_uri())]
    for problem in problems:
        visit.expect(False, problem)


def check_saving(visit):
    """The file that the page hands to the reader holds the weights shown, in NPY format."""
    data = visit.data
    with tempfile.TemporaryDirectory() as folder:
        visit.browser.send("Browser.setDownloadBehavior", behavior="allow", downloadPath=folder)
        visit.click("#save")
        path = pathlib.Path(folder) / "attention-layer0-head0.npy"
        deadline = time.monotonic() + visit.browser.timeout
        size = 4 * data.cells ** 2
        while not (path.exists() and path.stat().st_size > size) and time.monotonic() < deadline:
            time.sleep(0.05)
        visit.expect(path.exists(), "nothing was saved")
        if not path.exists():
            return
        content = path.read_bytes()
    header = content[:len(content) - size]
    visit.expect(header.startswith(b"\x93NUMPY\x01\x00") and len(header) % 64 == 0, "the saved file is not NPY")
    visit.expect(f"'descr': '<f4', 'fortran_order': False, 'shape': ({data.cells}, {data.cells})".encode() in header, f"the saved file says {header}")
    values = array.array("f", content[len(header):])
    for row in range(0, data.cells, max(1, data.cells // 50)):
        expected = data.row(0, row)
        own = values[row * data.cells:(row + 1) * data.cells]
        visit.expect(all(abs(a - b) <= 1e-6 * b for a, b in zip(own, expected)), f"row {row} of the saved file is not the map's")


def check_view(browser, page, view, say):
    """The problems of a page in one view."""
    say(f"{page.name}, {view['scheme']}, {view['width']} pixels wide")
    visit = Visit(browser, page, view)
    check_times(visit, say)
    check_heads(visit)
    check_pointing(visit)
    check_keys(visit)
    check_map_pointer(visit)
    check_options(visit)
    check_characters(visit)
    check_layout(visit)
    check_saving(visit)
    return visit.problems


def check(browser, page, least_bin=1, say=lambda line: None):
    """The problems of a page, none when it is as it should be. Raises BrowserError."""
    problems = [problem for view in (LIGHT_WIDE, DARK_NARROW) for problem in check_view(browser, page, view, say)]
    data = Data(page)
    if page.stat().st_size > MOST_BYTES:
        problems.append(f"{page.name}: {page.stat().st_size} bytes")
    if data.bin < least_bin:
        problems.append(f"{page.name}: cells of {data.bin} tokens where {least_bin} or more were expected")
    say(f"  {page.stat().st_size / 2**20:.1f} MiB, {len(data.maps)} heads of {data.cells} cells")
    return problems


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("page", type=pathlib.Path)
    parser.add_argument("--least-bin", type=int, default=1, help="tokens that a cell must stand for at least")
    arguments = parser.parse_args()
    chromium = devtools.find_chromium()
    if chromium is None:
        print("skipped: Chromium is not installed (Debian: apt install chromium)", file=sys.stderr)
        return check_report.NO_CHROMIUM
    if not arguments.page.is_file():
        print(f"{arguments.page}: no such file", file=sys.stderr)
        return 2
    with devtools.Browser(chromium) as browser:
        problems = check(browser, arguments.page, arguments.least_bin, print)
    for problem in problems:
        print("PROBLEM " + problem)
    print(f"{arguments.page}: {len(problems)} problems")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
