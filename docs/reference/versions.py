"""The first page of a site that holds several versions of these pages; ./dev docs calls it.

    python versions.py FOLDER

Writes FOLDER/index.html: a link to every folder below FOLDER that is named after a version (0.1.0) and has pages, newest first.
Ends with 1 where there is none.
"""

import pathlib
import re
import sys

PAGE = """<!DOCTYPE html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>heed: versions</title>
<style>body {{ font-family: sans-serif; max-width: 40em; margin: 3em auto; padding: 0 1em; line-height: 1.6 }}</style>
<h1>heed</h1>
<p>Choose the version that <code>python -m heed info</code> names:</p>
<ul>
{links}
</ul>
</html>
"""


def versions(folder):
    """Names of the version folders with pages, newest first: 0.10.0 before 0.9.1."""
    names = [path.parent.name for path in folder.glob("*/index.html") if re.fullmatch(r"\d+(\.\d+)*", path.parent.name)]
    return sorted(names, key=lambda name: [int(number) for number in name.split(".")], reverse=True)


def main(folder):
    found = versions(folder)
    if not found:
        sys.exit(f"{folder}: expected a folder named after a version, as 0.1.0, with index.html in it")
    links = [f'<li><a href="{name}/index.html">{name}</a>{", the newest" if name == found[0] else ""}</li>' for name in found]
    beside = folder / "index.html.new"
    beside.write_text(PAGE.format(links="\n".join(links)), encoding="utf-8")
    beside.rename(folder / "index.html")


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
