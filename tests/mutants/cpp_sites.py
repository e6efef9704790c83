"""Where a line of C++ can be made wrong so that it still compiles: expressions and statements inside functions.

A site is a piece of text [begin, end) of a file and what stands there instead when its fault is chosen. Both stay in the program,
and `heed_fault(7) ? (wrong) : (right)` chooses when it runs, so that one build holds all faults.
"""

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class Site:
    path: str
    begin: int
    end: int
    line: int
    fault: str  # what changes, for people
    wrong: str
    is_statement: bool = False  # a call that is left out, instead of an expression that is changed


_HIDDEN = re.compile(r'//[^\n]*|/\*.*?\*/|R"\(.*?\)"|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])+\'|^#(?:\\\n|[^\n])*', re.DOTALL | re.MULTILINE)
_SWAPS = {" + ": " - ", " - ": " + ", " * ": " + ", " / ": " * ", " < ": " <= ", " <= ": " < ", " > ": " >= ", " >= ": " > ",
          " == ": " != ", " != ": " == ", " && ": " || ", " || ": " && ", "std::min(": "std::max(", "std::max(": "std::min(",
          "true": "false", "false": "true"}
_OPERATORS = re.compile(r" (?:\+|-|\*|/|<=?|>=?|==|!=|&&|\|\|) |std::(?:min|max)\(|\b(?:true|false)\b|(?<![\w.<>])\d+(?![\w.]|\.\d)")
# Words of statements that hold types, constants for the compiler, or no value.
_DECLARATIVE = re.compile(
    r"\b(?:constexpr|consteval|constinit|using|typedef|template|static_assert|namespace|operator|default|delete|goto|case|enum|friend"
    r"|static|extern|throw|co_\w+|asm|requires|sizeof|decltype|alignas)\b|\[")
_CALL = re.compile(r"[A-Za-z_][\w:.]*(?:->[\w.]+)*\(")


def _blank(match):
    return re.sub(r"[^\n]", "_" if match.group()[0] in "\"'R" else " ", match.group())


def _wrong_forms(text, masked, begin, end):
    """(description, text) of each wrong form of the expression at [begin, end)."""
    expression = masked[begin:end]
    for match in _OPERATORS.finditer(expression):
        old = match.group()
        new = _SWAPS.get(old) or str(int(old) + 1)
        at = begin + match.start()
        yield f"{old.strip()} becomes {new.strip()}", text[begin:at] + new + text[at + len(old):end]


def _closing(masked, opening):
    depth = 0
    for at in range(opening, len(masked)):
        depth += (masked[at] == "(") - (masked[at] == ")")
        if depth == 0:
            return at
    return None


def _has_comma(expression):
    """Whether a comma stands outside of all parentheses: another declaration, or a template's arguments."""
    depth = 0
    for character in expression:
        depth += (character == "(") - (character == ")")
        if character == "," and depth == 0:
            return True
    return False


def _expressions(masked, begin, end):
    """Spans of whole expressions in the statement at [begin, end), which ends before its `;` or `{`, with their kind."""
    statement = masked[begin:end]
    if _DECLARATIVE.search(statement) or "{" in statement:
        return
    head = re.match(r"\s*(?:}\s*)?(?:else\s+)?(if|while|return|for)\b", statement)
    word = head.group(1) if head else ""
    if word in ("if", "while"):
        opening = masked.find("(", begin)
        closing = _closing(masked, opening)
        if closing and closing <= end and ";" not in masked[opening:closing] and " = " not in masked[opening:closing]:
            yield opening + 1, closing, "condition"
    elif word == "return":
        yield begin + head.end(), end, "value"
    elif word == "":
        assignment = re.search(r" = ", statement)
        if assignment and statement[:assignment.start()].count("(") == statement[:assignment.start()].count(")"):
            yield begin + assignment.end(), end, "value"
        elif not assignment and _CALL.match(statement.strip()) and statement.count("(") == statement.count(")"):
            yield begin + len(statement) - len(statement.lstrip()), end, "call"


def sites(path, text):
    """All sites of a file, in the order of its text."""
    masked = _HIDDEN.sub(_blank, text)
    begin, depth, parens = 0, 0, 0
    functions = []  # depths at which a function's body or a block in it was opened
    for at, character in enumerate(masked):
        parens += (character == "(") - (character == ")")
        if character not in ";{}" or (parens and character == ";"):
            continue
        if functions and character in ";{" and not parens:
            for first, last, kind in _expressions(masked, begin, at):
                if kind == "condition" or (character == ";" and not _has_comma(masked[first:last])):
                    yield from _at(path, text, masked, first, last, kind)
        if character == "{":
            before = masked[begin:at].rstrip()
            is_function = bool(re.search(r"\)(?:\s*(?:const|noexcept|override|final|->[\w:<>,\s*&]+|HWY_\w+))*$", before))
            constant = re.search(r"\bconst(?:expr|eval)\b", before) and not functions
            if functions or (is_function and not constant):
                functions.append(depth)
            depth += 1
        elif character == "}":
            depth -= 1
            if functions and functions[-1] == depth:
                functions.pop()
        begin = at + 1


def _at(path, text, masked, begin, end, kind):
    if not masked[begin:end].strip():
        return
    begin += len(masked[begin:end]) - len(masked[begin:end].lstrip())
    line = text.count("\n", 0, begin) + 1
    if kind == "call":
        yield Site(path, begin, end, line, "the call is left out", "", is_statement=True)
    if kind == "condition":
        yield Site(path, begin, end, line, "the condition is negated", f"!({text[begin:end]})")
    for fault, wrong in _wrong_forms(text, masked, begin, end):
        yield Site(path, begin, end, line, fault, wrong)


def planted(text, chosen):
    """The text with the faults of {number: site}; several may stand in one expression."""
    by_place = {}
    for number, site in chosen.items():
        by_place.setdefault((site.begin, site.end), []).append((number, site))
    for (begin, end), faults in sorted(by_place.items(), reverse=True):
        right = text[begin:end]
        code = right
        for number, site in sorted(faults, key=lambda fault: fault[1].is_statement):
            if site.is_statement:
                code = f"if (!heed_fault({number})) {code}"
            else:
                # A pointer, or an object that turns into a bool, may be a condition; both sides of ?: have one type.
                code = f"static_cast<bool>({code})" if site.wrong.startswith("!(") else f"({code})"
                code = f"(heed_fault({number}) ? ({site.wrong}) : {code})"
        text = text[:begin] + code + text[end:]
    return text
