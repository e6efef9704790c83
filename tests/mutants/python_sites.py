"""Where a line of Python can be made wrong: see cpp_sites.py, whose Site this file gives."""

import ast
import copy

from cpp_sites import Site

_OTHER = {ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Add, ast.Div: ast.Mult, ast.FloorDiv: ast.Mult, ast.Mod: ast.Mult,
          ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.Is: ast.IsNot,
          ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In, ast.And: ast.Or, ast.Or: ast.And}
_SIGN = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.FloorDiv: "//", ast.Mod: "%", ast.Lt: "<", ast.LtE: "<=",
         ast.Gt: ">", ast.GtE: ">=", ast.Eq: "==", ast.NotEq: "!=", ast.Is: "is", ast.IsNot: "is not", ast.In: "in",
         ast.NotIn: "not in", ast.And: "and", ast.Or: "or"}

# What fault.h says, in one line. TorchDynamo takes the answer of a function with this mark for a constant, and does not look into it.
_CHOICE = (
    "import mmap as _mmap, os as _os; _heed_faults = _os.environ.get('HEED_FAULT', '').split(','); "
    "_heed_reached = _mmap.mmap(_os.open(_os.environ['HEED_FAULT_REACHED'], _os.O_RDWR), 1024) if 'HEED_FAULT_REACHED' in _os.environ "
    "else bytearray(1024); "
    "_heed_fault = lambda number: (_heed_reached.__setitem__(number, 1), str(number) in _heed_faults)[1]; "
    "_heed_fault._dynamo_marked_constant = True"
)  # fmt: skip


def _wrong(node):
    """(description, wrong node) of each fault of an expression."""
    if isinstance(node, (ast.BinOp, ast.BoolOp)) and type(node.op) in _OTHER:
        wrong = copy.deepcopy(node)
        wrong.op = _OTHER[type(node.op)]()
        yield f"{_SIGN[type(node.op)]} becomes {_SIGN[type(wrong.op)]}", wrong
    elif isinstance(node, ast.Compare) and len(node.ops) == 1:
        wrong = copy.deepcopy(node)
        wrong.ops = [_OTHER[type(node.ops[0])]()]
        yield f"{_SIGN[type(node.ops[0])]} becomes {_SIGN[type(wrong.ops[0])]}", wrong
    elif isinstance(node, ast.Constant) and isinstance(node.value, bool):
        yield f"{node.value} becomes {not node.value}", ast.Constant(not node.value)
    elif isinstance(node, ast.Constant) and isinstance(node.value, int):
        yield f"{node.value} becomes {node.value + 1}", ast.Constant(node.value + 1)


def _places(tree):
    """(node, description, wrong code, whether it is a statement) inside functions, without annotations, f-strings and patterns."""
    def visit(node, inside):
        for name, value in ast.iter_fields(node):
            if name in ("annotation", "returns", "type_params", "decorator_list") or isinstance(node, ast.JoinedStr):
                continue
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.AST) and not isinstance(child, ast.pattern):
                    yield from at(child, inside)
                    yield from visit(child, inside or isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)))

    def at(node, inside):
        if not inside:
            return
        if isinstance(node, (ast.If, ast.IfExp, ast.While)):
            yield node.test, "the condition is negated", f"not ({ast.unparse(node.test)})", False
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            yield node.value, "the call is left out", "None", True
        for fault, wrong in _wrong(node):
            yield node, fault, ast.unparse(wrong), False

    yield from visit(tree, False)


def sites(path, text):
    """All sites of a file, in the order of its text."""
    starts = [0]
    lines = text.encode().split(b"\n")
    for line in lines:
        starts.append(starts[-1] + len(line) + 1)
    found = [
        Site(path, starts[node.lineno - 1] + node.col_offset, starts[node.end_lineno - 1] + node.end_col_offset, node.lineno, fault, wrong,
             is_statement)
        for node, fault, wrong, is_statement in _places(ast.parse(text))
    ]  # fmt: skip
    return sorted(found, key=lambda site: (site.begin, site.end, site.fault))


def planted(text, chosen):
    """The text with the faults of {number: site}; faults within each other are left to the outer one's right form."""
    data = text.encode()
    order = sorted(chosen.items(), key=lambda item: (item[1].begin, -item[1].end), reverse=True)
    taken = []
    for number, site in order:
        if any(site.begin < end and begin < site.end for begin, end in taken):
            raise ValueError(f"{site.path}:{site.line}: two faults within each other")
        taken.append((site.begin, site.end))
        right = data[site.begin:site.end].decode()
        data = data[:site.begin] + f"(({site.wrong}) if _heed_fault({number}) else ({right}))".encode() + data[site.end:]
    tree = ast.parse(text)
    first = next((node for node in tree.body if not (isinstance(node, ast.Expr) or (isinstance(node, ast.ImportFrom) and node.module == "__future__"))), None)
    lines = data.decode().split("\n")
    at = first.lineno - 1 if first else len(lines)
    if first is not None and getattr(first, "decorator_list", None):
        at = first.decorator_list[0].lineno - 1
    lines.insert(at, _CHOICE)
    return "\n".join(lines)
