"""Opens a report in headless Chromium and checks what a reader would see.

    python tests/browser/check_report.py REPORT.html [--figures N]

In light and dark, wide and narrow, and on paper: no error in the console, no request beyond the page itself, every figure has
ink in colour on its rendered pixels, a title, a caption, a link to its numbers and how it was made (command, seeds, machine), no
label is cut off, text can be told from its background, nothing is wider than the window, every linked file is there; paper is
white whatever the reader prefers, and no figure is torn between two sheets. Prints a line a figure and one a problem; exit 0
without problems, 1 with, 77 without Chromium.
"""

import argparse
import pathlib
import sys
import urllib.parse

import devtools

LIGHT_WIDE = {"scheme": "light", "width": 1100}
DARK_NARROW = {"scheme": "dark", "width": 480}
PAPER = {"scheme": "dark", "width": 700, "media": "print"}  # of a reader whose screen is dark
NO_CHROMIUM = 77

# Of a figure's pixels. Axes and labels alone reach the first, not the second: they are grey.
LEAST_INK = 0.004
LEAST_COLOUR = 0.0005
LEAST_CONTRAST = 4.5  # WCAG 2.1, success criterion 1.4.3

LOOK = """
(() => {
  const box = e => { const r = e.getBoundingClientRect(); return {x: r.x + scrollX, y: r.y + scrollY, width: r.width, height: r.height}; };
  const cut = picture => {
    const p = picture.getBoundingClientRect();
    return [...picture.querySelectorAll('text')].filter(text => {
      const t = text.getBoundingClientRect();
      return t.width > 0 && (t.left < p.left - 1 || t.right > p.right + 1 || t.top < p.top - 1 || t.bottom > p.bottom + 1);
    }).map(text => text.textContent.trim());
  };
  const figures = [...document.querySelectorAll('figure')].map((figure, i) => {
    const picture = figure.querySelector('svg, img, canvas');
    const title = figure.querySelector('figcaption strong');
    const name = title ? title.textContent.trim() : 'figure ' + (i + 1);
    const text = selector => [...figure.querySelectorAll(selector)].map(e => e.textContent.trim()).join(' ');
    const parts = {
      title: title ? name : '',
      caption: text('figcaption').replace(title ? title.textContent : '', '').replace(text('.source'), '').trim(),
      command: text('.source code'), seeds: text('.source .seeds'), machine: text('.source .machine'),
      'link to a CSV file': [...figure.querySelectorAll('.source a')].some(a => a.getAttribute('href').endsWith('.csv')) ? 'CSV' : '',
    };
    return {
      name, box: picture && box(picture), cut: picture ? cut(picture) : [],
      absent: Object.keys(parts).filter(part => !parts[part]), whole: getComputedStyle(figure).breakInside === 'avoid',
    };
  });
  const ids = [...document.querySelectorAll('[id]')].map(e => e.id);
  const style = getComputedStyle(document.body);
  return {
    figures,
    repeated: ids.filter((id, i) => ids.indexOf(id) !== i),
    links: [...document.querySelectorAll('a[href]')].map(a => a.getAttribute('href')),
    ink: style.color, page: style.backgroundColor,
    width: document.documentElement.scrollWidth, window: innerWidth,
  };
})()
"""

# The shares of pixels that differ from the commonest colour, and of those the ones with a colour and not a grey.
MEASURE = """
(async () => {
  const bytes = Uint8Array.from(atob('%s'), character => character.charCodeAt(0));
  const image = await createImageBitmap(new Blob([bytes], {type: 'image/png'}));
  const context = new OffscreenCanvas(image.width, image.height).getContext('2d');
  context.drawImage(image, 0, 0);
  const pixels = context.getImageData(0, 0, image.width, image.height).data;
  const counts = new Map();
  for (let i = 0; i < pixels.length; i += 4) {
    const colour = pixels[i] << 16 | pixels[i + 1] << 8 | pixels[i + 2];
    counts.set(colour, (counts.get(colour) || 0) + 1);
  }
  const paper = [...counts].sort((a, b) => b[1] - a[1])[0][0];
  const far = colour => [16, 8, 0].some(shift => Math.abs((colour >> shift & 255) - (paper >> shift & 255)) > 24);
  const vivid = colour => {
    const parts = [16, 8, 0].map(shift => colour >> shift & 255);
    return Math.max(...parts) - Math.min(...parts) > 48;
  };
  let ink = 0, colour = 0;
  for (const [value, count] of counts) {
    if (far(value)) ink += count;
    if (vivid(value)) colour += count;
  }
  return {ink: ink / (pixels.length / 4), colour: colour / (pixels.length / 4)};
})()
"""


def luminance(colour):
    """Relative luminance (WCAG 2.1) of a CSS colour such as rgb(29, 39, 51)."""
    parts = [float(part) / 255 for part in colour[colour.index("(") + 1:colour.index(")")].split(",")[:3]]
    linear = [part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def console_problems(events, session):
    for event in events:
        if event.get("sessionId") != session:
            continue
        method, parameters = event.get("method"), event.get("params", {})
        if method == "Runtime.exceptionThrown":
            yield "exception: " + str(parameters["exceptionDetails"].get("text"))
        elif method == "Runtime.consoleAPICalled" and parameters["type"] in ("error", "assert"):
            yield "console error: " + str([argument.get("value") for argument in parameters["args"]])
        elif method == "Log.entryAdded" and parameters["entry"]["level"] == "error":
            yield "console error: " + parameters["entry"]["text"]


def request_problems(events, session, page):
    for event in events:
        if event.get("sessionId") == session and event.get("method") == "Network.requestWillBeSent":
            url = event["params"]["request"]["url"]
            if url.split("#")[0] != page and not url.startswith("data:"):
                yield "request: " + url


def layout_problems(look, view, expected_figures):
    found = len(look["figures"])
    if found == 0 or expected_figures not in (None, found):
        yield f"{found} figures where {expected_figures or 'at least 1'} was expected"
    for name in sorted(set(look["repeated"])):
        yield f"id '{name}' stands more than once"
    if look["width"] > look["window"] + 1:
        yield f"the page is {look['width']} pixels wide in a window of {look['window']}"
    ink, page = luminance(look["ink"]), luminance(look["page"])
    if (max(ink, page) + 0.05) / (min(ink, page) + 0.05) < LEAST_CONTRAST:
        yield f"text {look['ink']} on {look['page']} is hard to read"
    if "media" in view:
        if look["page"] != "rgb(255, 255, 255)":
            yield f"paper is {look['page']}"
        yield from (f"{figure['name']}: may be torn between two sheets" for figure in look["figures"] if not figure["whole"])
    elif (page < 0.5) != (view["scheme"] == "dark"):
        yield f"the page is {look['page']} although the reader prefers {view['scheme']}"


def link_problems(look, report):
    for link in look["links"]:
        if link.startswith("#"):
            continue
        target = report.parent / urllib.parse.unquote(link)
        if urllib.parse.urlsplit(link).scheme or not target.is_file() or target.stat().st_size == 0:
            yield f"link to '{link}', which is no file beside the page"


def figure_problems(browser, session, figures, say):
    for figure in figures:
        for part in figure["absent"]:
            yield f"{figure['name']}: no {part}"
        for text in figure["cut"]:
            yield f"{figure['name']}: '{text}' is cut off"
        if not figure["box"] or not figure["box"]["width"] or not figure["box"]["height"]:
            yield f"{figure['name']}: no picture"
            continue
        clip = {**figure["box"], "scale": 1}
        shot = browser.send("Page.captureScreenshot", session, format="png", clip=clip, captureBeyondViewport=True)
        shares = browser.evaluate(session, MEASURE % shot["data"])
        say(f"  {figure['name']}: ink {100 * shares['ink']:.1f} %, colour {100 * shares['colour']:.1f} %")
        if shares["ink"] < LEAST_INK or shares["colour"] < LEAST_COLOUR:
            yield f"{figure['name']}: nothing to see (ink {shares['ink']:.5f}, colour {shares['colour']:.5f})"


def check_view(browser, report, view, figures, say):
    """The problems of one report in one view."""
    name = view.get("media", view["scheme"])
    say(f"{name}, {view['width']} pixels wide")
    session = browser.open_tab()
    for domain in ("Page", "Runtime", "Log", "Network"):
        browser.send(domain + ".enable", session)
    browser.send("Emulation.setDeviceMetricsOverride", session, width=view["width"], height=900, deviceScaleFactor=1, mobile=False)
    preference = {"name": "prefers-color-scheme", "value": view["scheme"]}
    browser.send("Emulation.setEmulatedMedia", session, media=view.get("media", ""), features=[preference])
    page = report.resolve().as_uri()
    browser.send("Page.navigate", session, url=page)
    browser.wait_for("Page.loadEventFired", session)
    look = browser.evaluate(session, LOOK)
    problems = [*layout_problems(look, view, figures), *link_problems(look, report)]
    problems += figure_problems(browser, session, look["figures"], say)
    problems += [*console_problems(browser.events, session), *request_problems(browser.events, session, page)]
    return [f"{name}: {problem}" for problem in problems]


def check(browser, report, figures=None, say=lambda line: None):
    """The problems of a report, none when it is as it should be. Raises BrowserError."""
    return [problem for view in (LIGHT_WIDE, DARK_NARROW, PAPER) for problem in check_view(browser, report, view, figures, say)]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("report", type=pathlib.Path)
    parser.add_argument("--figures", type=int, help="how many figures there must be; default: at least one")
    arguments = parser.parse_args()
    chromium = devtools.find_chromium()
    if chromium is None:
        print("skipped: Chromium is not installed (Debian: apt install chromium)", file=sys.stderr)
        return NO_CHROMIUM
    if not arguments.report.is_file():
        print(f"{arguments.report}: no such file", file=sys.stderr)
        return 2
    with devtools.Browser(chromium) as browser:
        problems = check(browser, arguments.report, arguments.figures, print)
    for problem in problems:
        print("PROBLEM " + problem)
    print(f"{arguments.report}: {len(problems)} problems")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
