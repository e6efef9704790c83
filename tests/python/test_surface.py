"""What help() shows and type checkers read: every public name is described and annotated."""

import ast
import collections
import importlib.util
import inspect
import pathlib
import subprocess
import sys

import heed_inference
import pytest

import heed

MODULES = [heed_inference, heed, heed.book, heed.flash_attn, heed.models, heed.nn, heed.positions, heed.testing, heed.transformers]
MODULES += [heed.sklearn] if importlib.util.find_spec("sklearn") else []
OURS = ("heed", "heed_inference", __name__)


def is_ours(thing):
    return (getattr(thing, "__module__", None) or "").split(".")[0] in OURS


def public(module):
    """The module's own names with what they stand for; submodules are walked on their own."""
    for name in module.__all__:
        thing = getattr(module, name)
        if not inspect.ismodule(thing):
            yield f"{module.__name__}.{name}", thing


def function_faults(name, function):
    if not inspect.getdoc(function) or not function.__doc__:
        yield f"{name}: no docstring"
    signature = inspect.signature(function)
    for parameter in signature.parameters.values():
        if parameter.name != "self" and parameter.annotation is parameter.empty:
            yield f"{name}: {parameter.name} has no annotation"
    if signature.return_annotation is signature.empty:
        yield f"{name}: the result has no annotation"


def member_faults(name, member):
    if isinstance(member, property):
        yield from function_faults(name, member.fget)
    elif inspect.isfunction(member):
        yield from function_faults(name, member)


def attribute_faults(name, cls):
    """Attributes are read from the source: annotated in the class and followed by a string, as Sphinx takes them."""
    lines, first = inspect.getsourcelines(cls)
    body = ast.parse("".join(lines)).body[0].body
    described = {
        node.target.id
        for node, following in zip(body, [*body[1:], None])
        if isinstance(node, ast.AnnAssign)
        and isinstance(following, ast.Expr)
        and isinstance(following.value, ast.Constant)
        and isinstance(following.value.value, str)
    }
    inherited = {attribute for base in cls.__mro__[1:] for attribute in getattr(base, "__annotations__", {})}
    for node in ast.walk(ast.Module(body, [])):
        stored = isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)
        if stored and isinstance(node.value, ast.Name) and node.value.id == "self":
            attribute = node.attr
        elif node in body and isinstance(node, ast.AnnAssign):
            attribute = node.target.id
        else:
            continue
        if not attribute.startswith("_") and attribute not in described and attribute not in inherited:
            yield f"{name}.{attribute}: not annotated and described in the class"


def class_faults(name, cls):
    if not cls.__doc__ or cls.__doc__.startswith(f"{cls.__name__}("):
        yield f"{name}: no docstring"
    if issubclass(cls, tuple):
        for field in cls._fields:
            if (getattr(cls, field).__doc__ or "Alias for").startswith("Alias for"):
                yield f"{name}.{field}: no docstring"
        return
    for base in cls.__mro__:
        if is_ours(base):
            for attribute, member in vars(base).items():
                if not attribute.startswith("_"):
                    yield from member_faults(f"{base.__module__}.{base.__name__}.{attribute}", member)
            yield from attribute_faults(f"{base.__module__}.{base.__name__}", base)
    constructor = cls.__init__
    # A constructor without arguments has nothing to say that the class does not.
    if is_ours(constructor) and len(inspect.signature(constructor).parameters) > 1:
        yield from function_faults(f"{name}.__init__", constructor)


def faults(name, thing):
    if inspect.isclass(thing):
        return list(class_faults(name, thing))
    return list(function_faults(name, thing)) if inspect.isfunction(thing) else []


PUBLIC = {name: thing for module in MODULES for name, thing in public(module)}


@pytest.mark.parametrize("name", PUBLIC)
def test_every_public_name_is_described_and_annotated(name):
    assert faults(name, PUBLIC[name]) == []


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__)
def test_modules_are_described_and_list_their_names(module):
    assert module.__doc__
    listed = set(module.__all__)
    own = {name for name, thing in vars(module).items() if getattr(thing, "__module__", "") == module.__name__}
    found = {name for name in own if not name.startswith("_")}
    assert found <= listed, f"public and not in __all__: {sorted(found - listed)}"


def test_the_walk_finds_what_is_missing():
    def bare(x, y: int):
        return x

    assert faults("bare", bare) == ["bare: no docstring", "bare: x has no annotation", "bare: the result has no annotation"]
    undescribed = collections.namedtuple("undescribed", ["field"])
    assert faults("undescribed", undescribed) == ["undescribed: no docstring", "undescribed.field: no docstring"]
    found = faults("Undescribed", Undescribed)
    assert {fault.split(".", 1)[1] for fault in found if "." in fault} == {
        "Undescribed.method: no docstring",
        "Undescribed.length: the result has no annotation",
        "Undescribed.size: not annotated and described in the class",
        "__init__: no docstring",
        "__init__: size has no annotation",
        "__init__: the result has no annotation",
    }
    assert "Undescribed: no docstring" in found


class Undescribed:
    def __init__(self, size):
        self.size = size

    def method(self) -> None:
        pass

    @property
    def length(self):
        """How long."""
        return self.size


# Lines that end in `# refused` must not pass, all others must.
CONSUMER = '''\
import torch

import heed
from heed import nn, positions, testing

x = torch.randn(1, 2, 3, 8)
doubled: torch.Tensor = 2 * heed.attention(x, x, x, causal=True, window=(2, -1), position=positions.Alibi(2))
full = heed.attention(x, x, x, causal="top_left", return_lse=True)
lse: torch.Tensor | None = full.lse
stepped: torch.Tensor = heed.linear_attention(x, x, x, x[..., 0], return_state=True)[1] + heed.gated_delta_rule(x, x, x, x[..., 0])
chosen = heed.attention(x, x, x, return_weights=heed.WeightsOf(rows=torch.tensor([0]))).weights
layer = nn.MultiHeadAttention(8, 2, 0.0, causal=True)
Y: torch.Tensor = layer(x[0], x[0], x[0], torch.tensor([3, 2]))
Z, weights = layer(x[0], x[0], x[0], return_weights=True)
masked: torch.Tensor = layer(x[0], x[0], x[0], mask=x[0] > 0, query_lengths=torch.tensor([3, 2]))
stack = torch.nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, norm_first=True), 2)
projection: torch.nn.Parameter = nn.TransformerDecoderLayer(8, 2).multihead_attn.in_proj_weight
mean: torch.Tensor | None = nn.MultiheadAttention(8, 2, batch_first=True)(x[0], x[0], x[0], is_causal=False)[1]
cache = layer.new_cache(1)
book = nn.TransformerEncoder(9, 8, 8, 2, 1, 0.0, position=lambda: positions.Rotary(4), edition="d2l-1.0.3")
kept: list[torch.Tensor] = book.attention_weights
encoder = nn.AttentionEncoder(8, layers=2, position="rotary")
encoded: torch.Tensor = encoder(x[0])
encoded, maps = encoder(x[0], return_weights=True)
other: torch.Tensor = nn.make_encoder("gru", 8, layers=1)(x[0], torch.tensor([3, 2]))
rows: int = cache.batch
native: torch.Tensor = heed.scaled_dot_product_attention(x, x, x, is_causal=True)
with heed.replace_sdpa():
    torch.nn.functional.scaled_dot_product_attention(x, x, x)
heed.load_weights(layer, {"W_q": {"kernel": x}}, "flax")
checked: bool = testing.check_scheme("rotary", heads=2, options={"scale": 1.0}).passed
answer: str = heed.study("walks.csv", "label", sequence="walk", budget="quick").answer
heed.attention(x, x, x, causal="bottom")  # refused
heed.attention(x, x, x, is_causal=True)  # refused
heed.attention(x, x)  # refused
heed.attention(x, x, x).output  # refused
heed.attention(x, x, x, position="alibi")  # refused
cache.attend(x, empty_row="nan")  # refused
layer(x, x, x, valid_len=torch.tensor([3]))  # refused
nn.MultiHeadAttention(8, 2, 0.0, edition="d2l")  # refused
nn.TransformerEncoderBlock(8, 8, 2, 0.0, norm="mid")  # refused
nn.AttentionEncoder(8, layer=2)  # refused
nn.TransformerEncoderLayer(8, 2, heads=2)  # refused
nn.MultiheadAttention(8, 2)(x[0], x[0], x[0], mask=None)  # refused
positions.Rotary(8, layout="halves")  # refused
heed.linear_attention(x, x, x, return_state=True).sum()  # refused
heed.attend  # refused
testing.check_scheme(3)  # refused
heed.study("walks.csv").answers  # refused
'''


def test_the_package_says_that_it_has_types():
    assert (pathlib.Path(heed.__file__).parent / "py.typed").is_file()


def test_a_consumer_is_type_checked(tmp_path):
    pytest.importorskip("mypy", reason="mypy is not installed: the types of the public surface are not checked")
    package = pathlib.Path(heed.__file__).resolve().parent.parent
    (tmp_path / "consumer.py").write_text(CONSUMER)
    # A package outside site-packages is found by this; one inside by itself.
    search = [] if package.name in ("site-packages", "dist-packages") else [f"mypy_path = {package}"]
    (tmp_path / "mypy.ini").write_text("\n".join(["[mypy]", "strict = true", *search]))
    kept = pathlib.Path(__file__).resolve().parents[2] / "build"
    cache = kept / "mypy-consumer" if kept.is_dir() else tmp_path / "cache"  # reading PyTorch takes half a minute
    command = [sys.executable, "-m", "mypy", "--config-file", "mypy.ini", "--cache-dir", str(cache), "consumer.py"]
    result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    found = {int(line.split(":")[1]) for line in result.stdout.splitlines() if ": error:" in line}
    expected = {number for number, line in enumerate(CONSUMER.splitlines(), 1) if line.endswith("# refused")}
    assert found == expected, result.stdout + result.stderr
