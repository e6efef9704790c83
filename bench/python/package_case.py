"""What a model that packages.py measures consists of, and how heed is asked for."""

import contextlib
from collections.abc import Callable
from typing import Any, NamedTuple


class Switch(NamedTuple):
    """How heed is asked for: what is done to a model, and the context that its steps run in."""

    model: Callable[[Any], Any]
    context: Callable[[], Any]


@contextlib.contextmanager
def enabled():
    import heed

    heed.enable()
    try:
        yield
    finally:
        heed.disable()


def convert(model):
    import heed

    heed.convert(model)


def by_interface(model):
    import heed

    heed.transformers.register()
    model.set_attn_implementation("heed")


SWITCHES = {
    "": Switch(lambda model: None, contextlib.nullcontext),
    "heed.enable()": Switch(lambda model: None, enabled),
    "heed.convert(model)": Switch(convert, contextlib.nullcontext),
    'attn_implementation="heed"': Switch(by_interface, contextlib.nullcontext),
}


class Tried(NamedTuple):
    """A model with its batch: loss(model), infer(model) and optimizer(model)."""

    model: Any
    loss: Callable[[Any], Any]
    infer: Callable[[Any], Any]
    optimizer: Callable[[Any], Any]


class Case(NamedTuple):
    name: str
    package: str
    heed: str
    sizes: str
    note: str
    make: Callable[[], Tried]
    environment: dict[str, str]


CASES: list[Case] = []


def case(name, package, heed, sizes, note="", **environment):
    """Registers the function below it, which returns what is Tried."""

    def register(make):
        CASES.append(Case(name, package, heed, sizes, note, make, environment))
        return make

    return register
