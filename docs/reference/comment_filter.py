"""Doxygen's input filter: heed's plain comments as the ones that Doxygen reads.

    python3 comment_filter.py HEADER

A comment above a declaration becomes `///`, one behind a member `///<`; the one that a header begins with describes the
file.
"""

import re
import sys

ABOVE = re.compile(r"^(\s*)//(?!/) ?(.*)$")
BEHIND = re.compile(r"^(.*[,;{)}\w].*?)  // (.*)$")
CLOSING = re.compile(r"^\s*(#|}  //)")  # what such a line says is for readers of the source
# What Doxygen would take for a command or a tag.
SPECIAL = re.compile(r"([<>@#\\&])")


def described(comment):
    """A line of a comment; formulas, which stand two columns further in, are code for Doxygen's Markdown."""
    return f"    {comment}" if comment.startswith("  ") else SPECIAL.sub(r"\\\1", comment)


def with_lines(text):
    """The comments of a C header as those of C++, a line each; in C++ they stand within lines, for nobody but readers."""
    if not text.startswith("/*"):
        return text

    def rewritten(block):
        before = text[text.rfind("\n", 0, block.start()) + 1 : block.start()]
        lines = [line.strip() for line in block[1].split("\n")]
        alone = not before.strip()
        column = before if alone else " " * (len(before) + 1)
        return ("" if alone else " ") + f"\n{column}".join(f"// {line}" for line in lines)

    return re.sub(r"/\*(.*?)\*/", rewritten, text, flags=re.DOTALL)


def filtered(lines):
    head, behind = True, None
    for number, line in enumerate(lines):
        above, member = ABOVE.match(line), BEHIND.match(line)
        head = head and above is not None
        if head and number == 0:
            yield "/// @file"
        if above and behind is not None and len(above[1]) >= behind:  # a comment behind a member goes on in the next line
            yield f"{above[1]}///< {described(above[2])}"
            continue
        behind = None
        if above:
            yield f"{above[1]}/// {described(above[2])}"
        elif member and not CLOSING.match(line):
            behind = len(member[1])
            yield f"{member[1]}  ///< {described(member[2])}"
        elif not line.startswith("extern template"):  # a promise to compilers, which Breathe cannot read
            yield line


if __name__ == "__main__":
    with open(sys.argv[1], encoding="utf-8") as header:
        text = "\n".join(filtered(with_lines(header.read()).splitlines()))
    # Code begins and ends with an empty line.
    text = re.sub(r"^( *///<?) (?!     )(.+)\n(?= *///<?      )", r"\1 \2\n\1\n", text, flags=re.MULTILINE)
    print(re.sub(r"^( *///<?)(      .*)\n(?= *///<? \S)", r"\1\2\n\1\n", text, flags=re.MULTILINE))
