"""Checks that the house stands as docs/architecture.md draws it. Prints one line per fault; exit status 1 when there is any.

    python3 check_house.py ROOT

Rooms: an include points to the same room or to one on its left (engine, weights, inference, nn, lab, book, cli; python sits beside
lab). A room's private headers (its src/) are its own; tests and benches of a room may see what the room sees, and its private
headers.
Floors: inside engine/src an include points to the same floor or a lower one. The reference sees the public headers and core,
and no other part of the engine sees the reference.
Schemes: no file of the engine names a positional scheme but those of its folder.
Layouts: how products are laid out is chosen in one place, and no file names a layout but that and the layouts' own.
Experiments: inside lab an include points to the same folder or to the left in LAB; every other folder of lab and book is an
experiment, which sees CORE and no other experiment. The pages beside a study (book/companions) see all.
Texts: the sources beside a file *_prose.txt tell all of its texts and no other.
Files: at most MAX_LINES lines, named after a noun, no unfinished business; one of lab, book and cli makes text of JSON. Links in
documents lead to files and headings.
Bits: neither the engine nor inference calls elementary functions of the C library; the reference does.
Tensors: nn asks them for their address in one file, which refuses those whose memory does not hold their numbers.
"""

import pathlib
import re
import sys

ROOMS = {"engine": 0, "weights": 1, "inference": 2, "nn": 3, "lab": 4, "python": 4, "book": 5, "cli": 6}
FLOORS = ["include", "core", "simd", "program", "attention", "position", "dispatch", "mixers"]
CORE = ["report", "data", "options", "training", "runs"]
LAB = [*CORE, "series", "inspection", "study"]
WHOLE = "companions"
# Rooms that know no framework.
FRAMEWORKLESS = ("engine", "weights", "inference")
TORCH = ("torch/", "ATen/", "c10/", "caffe2/")
# A folder a positional scheme, with its public header, plain and SIMD part, and its formulas.
SCHEMES = pathlib.Path("engine/src/position")
# The layouts of products and their classes, and who may name them: where they are listed and chosen, and their own files.
LAYOUT = re.compile(r"\bLayout::k\w+|\b(?:Lane|Row|Pair)Scores\b|\b(?:Lane|Row|Rounded)Output(?:OfTiles)?\b|\b(?:Row|Pair|Rounded)Gradients\b")
ATTENTION = pathlib.Path("engine/src/attention")
NAMES_LAYOUTS = [ATTENTION / name for name in ("layout.cc", "score_products-inl.h", "panel_output-inl.h", "tangent_output-inl.h", "row_output-inl.h",
                                             "layout_gradients-inl.h")]
# Headers with a folder in their name that the engine may use besides its own.
ENGINE_FOREIGN = ("hwy/", "sys/")
# Who may look at the double-precision reference: tests, benches and `heed check`.
SEES_REFERENCE = ("engine/src/reference/", "tests/", "bench/", "cli/check")
# Functions whose last bits are the C library's: the engine and inference promise bits, see heed/portable_math.h.
OF_ONE = r"(?:exp|exp2|expm1|log|log1p|log2|log10|a?sin|a?cos|a?tan|sinh|cosh|tanh|erfc?|cbrt|[lt]gamma)[fl]?"
OF_TWO = r"(?:pow|atan2|hypot)[fl]?"
# Of std or of the global namespace by name, or unqualified: then members and names of other namespaces are others, and so is cos(i, t),
# an element of a view.
LIBRARY_MATH = re.compile(
    rf"(?:\bstd::|(?<![\w>])::)(?:{OF_ONE}|{OF_TWO})\(|(?<![\w.:])(?<!->)(?:{OF_TWO}\(|{OF_ONE}\((?![^(),]*,))|\busing std::(?:{OF_ONE}|{OF_TWO});")
TEXT_OR_COMMENT = re.compile(r'"(?:\\.|[^"\\])*"|//.*')
# Who may take the address of a tensor in nn; safetensors files are read into tensors of their own and written from copies.
SEES_ADDRESSES = ("nn/src/tensor_view.h", "nn/src/safetensors")
ADDRESS = re.compile(r"\b\w*data_ptr\b")
MAX_LINES = 500
VAGUE_NAMES = {"utils", "util", "common", "helpers", "helper", "misc"}
SOURCE_FOLDERS = ("engine", "weights", "inference", "nn", "lab", "book", "cli", "python", "tests", "bench", "examples", "cmake")
INCLUDE = re.compile(r'^[ \t]*#[ \t]*(?:include|define[ \t]+HWY_TARGET_INCLUDE)[ \t]+[<"]([^>"]+)[>"]', re.MULTILINE)
UNFINISHED = re.compile(r"\b(TOD[O]|FIXM[E]|XX[X]|HAC[K])\b")
# nlohmann's dump() throws where a text is not UTF-8, and names of files need not be.
JSON_DUMP = re.compile(r"\.dump\(")
JSON_WRITER = "lab/report/json.cc"
LINK = re.compile(r"\]\(([^)#\s]*)(?:#([^)\s]*))?\)")
HEADING = re.compile(r"^#+ +(.*?) *$", re.MULTILINE)


def resolve(root, path, name):
    """The file of this repository that an include names, relative to the root, or None for a foreign header."""
    rooms = [root / room / kind for room in ("engine", "weights", "inference", "nn") for kind in ("include", "src")]
    folders = [path.parent, *rooms, *sorted((root / SCHEMES).glob("*/include")), root]
    for folder in folders:
        # What is made from a template follows the rules of its template.
        for candidate in (folder / name, folder / f"{name}.in"):
            if candidate.is_file():
                return candidate.resolve().relative_to(root)
    return None


def part_of_scheme(path):
    """The part of a positional scheme that a file is: "include", "reference" or "" for the rest; None outside of schemes."""
    if not path.is_relative_to(SCHEMES) or len(path.parts) < 5:
        return None
    if path.parts[4] == "include":
        return "include"
    return "reference" if path.name.startswith("reference") else ""


def room_of(path):
    """The room whose rules a file follows: its own, or the one its tests, benches or examples are about."""
    parts = path.parts
    if parts[0] in ("tests", "bench") and parts[1] in ROOMS:
        return parts[1]
    return parts[0] if parts[0] in ROOMS else "cli"  # examples and tests of the whole may see everything


def floor_of(path):
    """Index into FLOORS, "reference", or None outside the engine."""
    parts = path.parts
    part = part_of_scheme(path)
    if parts[:2] == ("engine", "include") or part == "include":
        return 0
    if parts[:2] == ("engine", "src"):
        made_of_references = path == SCHEMES / "references.h.in"
        return "reference" if "reference" in (parts[2], part) or made_of_references else FLOORS.index(parts[2])
    return None


def is_private(path):
    return path.parts[0] in ROOMS and len(path.parts) > 2 and path.parts[1] == "src" and part_of_scheme(path) != "include"


def check_foreign(source, name):
    if room_of(source) not in FRAMEWORKLESS:
        return None
    if name.startswith(TORCH):
        return "neither the engine nor inference knows LibTorch"
    if source.parts[0] == "engine" and "/" in name and not name.startswith(ENGINE_FOREIGN):
        return "not a header of the standard library, of Highway or of heed"
    return None


def check_floors(source, target):
    mine, theirs = floor_of(source), floor_of(target)
    if theirs == "reference":
        if mine != "reference" and not str(source).startswith(SEES_REFERENCE):
            return "the reference is for tests, benches and `heed check`"
        return None
    if mine is None or theirs is None:
        return None
    if mine == "reference" and theirs > FLOORS.index("core"):
        return "the reference shares no code with the kernels"
    if mine != "reference" and theirs > mine:
        return f"floor {FLOORS[mine]} lies below {FLOORS[theirs]}"
    return None


def check_experiments(source, target):
    if source.parts[0] not in ("lab", "book") or target.parts[0] not in ("lab", "book"):
        return None
    mine, theirs = source.parts[1], target.parts[1]
    if mine in (theirs, WHOLE):
        return None
    if mine in LAB and theirs in LAB:
        return None if LAB.index(theirs) < LAB.index(mine) else f"in lab, {theirs} does not lie to the left of {mine}"
    return None if theirs in CORE else f"{theirs} is an experiment, which {WHOLE} alone sees"


def check_include(source, target):
    """What is wrong with `source` including `target`, both relative to the root; None when all is well."""
    if target.parts[0] not in ROOMS:
        return None
    mine, theirs = room_of(source), target.parts[0]
    if mine != theirs and ROOMS[theirs] >= ROOMS[mine]:
        return f"room {theirs} does not lie to the left of {mine}"
    reference = floor_of(target) == "reference"
    if is_private(target) and not reference:
        if source.parts[:2] == (theirs, "include") or part_of_scheme(source) == "include":
            return "a public header does not include a private one"
        if mine != theirs and source.parts[0] not in ("tests", "bench"):
            return f"a private header of {theirs}"
    return check_experiments(source, target) or check_floors(source, target)


def check_source(root, path):
    source = path.relative_to(root)
    text = path.read_text(encoding="utf-8")
    if source.parts[:2] == ("engine", "src") and (len(source.parts) < 4 or source.parts[2] not in [*FLOORS[1:], "reference"]):
        yield f"{source}: engine/src has the floors {', '.join(FLOORS[1:])} and reference"
        return
    for match in INCLUDE.finditer(text):
        name = match.group(1)
        target = resolve(root, path, name)
        fault = check_include(source, target) if target else check_foreign(source, name)
        if fault:
            line = text.count("\n", 0, match.start()) + 1
            yield f"{source}:{line}: includes {name}: {fault}"


def check_scheme_names(root, path):
    """In the engine a positional scheme is named in its own folder; elsewhere lists of all schemes are looped over."""
    source = path.relative_to(root)
    if source.parts[0] != "engine" or part_of_scheme(source) is not None:
        return
    folders = [folder.parent.name for folder in (root / SCHEMES).glob("*/scheme.h")]
    types = ["".join(word.capitalize() for word in name.split("_")) for name in folders]
    if not folders:
        return
    named = re.compile(rf"\b(?:{'|'.join([*folders, *types])})(?:\b|(?=[A-Z_]))")
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if not INCLUDE.match(line) and (match := named.search(line)):
            yield f"{source}:{number}: names the scheme {match.group()} outside its folder"


def check_layouts(root, path):
    """Outside the files of a layout nothing depends on which one a call has."""
    source = path.relative_to(root)
    if source.parts[:3] not in (ATTENTION.parts, ("engine", "src", "dispatch")) or source in NAMES_LAYOUTS:
        return
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if match := LAYOUT.search(line):
            yield f"{source}:{number}: names the layout {match.group()} outside its files"


def check_file(root, path):
    source = path.relative_to(root)
    lines = path.read_text(encoding="utf-8").splitlines()
    if len(lines) > MAX_LINES:
        yield f"{source}: {len(lines)} lines; at most {MAX_LINES}"
    words = set(re.split(r"[_.\-]", path.name))
    if words & VAGUE_NAMES:
        yield f"{source}: name it after what it holds"
    for number, line in enumerate(lines, 1):
        if UNFINISHED.search(line):
            yield f"{source}:{number}: unfinished business"
        if source.parts[0] == "nn" and ADDRESS.search(line) and not str(source).startswith(SEES_ADDRESSES):
            yield f"{source}:{number}: asks a tensor for its address; take a view of nn/src/tensor_view.h"
        if source.parts[0] in FRAMEWORKLESS and "reference" not in str(source):
            if match := LIBRARY_MATH.search(TEXT_OR_COMMENT.sub("", line)):
                yield f"{source}:{number}: calls {match.group()}..): its bits differ between machines; take heed/portable_math.h"
        if source.parts[0] in ("lab", "book", "cli") and str(source) != JSON_WRITER and JSON_DUMP.search(line):
            yield f"{source}:{number}: {JSON_WRITER} alone makes text of JSON"


def anchors(text):
    """The headings of a document, without its blocks of code, as GitHub makes links of them."""
    for title in HEADING.findall(text):
        yield re.sub(r"[^\w\- ]", "", re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", title).lower()).replace(" ", "-")


def without_blocks(path):
    return re.sub(r"^```.*?^```", "", path.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)


def check_prose(root, path):
    """Of a file *_prose.txt: texts that no source beside it names, whole or by their first word and the rest, and names that a source
    tells and the file has not."""
    texts = {line for line in (root / path).read_text(encoding="utf-8").splitlines() if line and not line.startswith(" ")}
    sources = {source: source.read_text(encoding="utf-8") for source in sorted((root / path).parent.glob("*.cc"))}
    code = "".join(sources.values())
    for name in sorted(texts):
        first, _, rest = name.partition(" ")
        ends = f'"{rest}"' in code or f'" {rest}"' in code
        if f'"{name}"' not in code and not (rest and ends and f'"{first}"' in code):
            yield f"{path}: no source beside it tells '{name}'"
    for source, text in sources.items():
        told = set(re.findall(r'\b[Tt]ell(?:Study\(\))?\("([^"]+)"', text))
        yield from (f"{source.relative_to(root)}: {path.name} has no text '{name}'" for name in sorted(told - texts))


def check_engine_header(root):
    """heed/engine.h reaches every public header of the engine."""
    public, seen, unread = root / "engine/include", set(), ["heed/engine.h"]
    while unread:
        header = unread.pop()
        found = next((path for path in (public / header, public / f"{header}.in") if path.is_file()), None)
        if found is not None and header not in seen:
            unread += re.findall(r'#include "([^"]+)"', found.read_text(encoding="utf-8"))
            seen.add(header)
    for path in sorted((public / "heed").glob("*.h")):
        if f"heed/{path.name}" not in seen:
            yield f"{path.relative_to(root)}: heed/engine.h does not reach it"


def check_links(root, path):
    for target, anchor in LINK.findall(without_blocks(path)):
        if "://" in target:
            continue
        there = path.parent / target if target else path
        if not there.exists():
            yield f"{path.relative_to(root)}: no file {target}"
        elif anchor and there.suffix == ".md" and anchor not in anchors(without_blocks(there)):
            yield f"{path.relative_to(root)}: no heading {target}#{anchor}"


def check(root):
    root = pathlib.Path(root).resolve()
    yield from check_engine_header(root)
    for folder in SOURCE_FOLDERS:
        for path in sorted((root / folder).rglob("*")):
            if path.suffix in (".cc", ".h", ".inc"):
                yield from check_source(root, path)
                yield from check_scheme_names(root, path)
                yield from check_layouts(root, path)
            if path.suffix in (".cc", ".h", ".inc", ".py", ".cmake", ".js") or path.name == "CMakeLists.txt":
                yield from check_file(root, path)
            if path.name.endswith("_prose.txt"):
                yield from check_prose(root, path.relative_to(root))
    for path in [*sorted(root.glob("*.md")), *sorted((root / "docs").rglob("*.md")), *sorted((root / "examples").rglob("*.md"))]:
        yield from check_links(root, path)


def main():
    faults = list(check(sys.argv[1]))
    print(*faults, sep="\n", end="\n" if faults else "")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
