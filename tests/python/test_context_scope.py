"""Who is inside of a context that replaces a function of PyTorch's, on which thread and in which task, and when it ends."""

import asyncio
import concurrent.futures
import contextlib
import contextvars
import threading

import pytest
import torch
import torch.nn.functional as F
from torch.nn.functional import scaled_dot_product_attention as NATIVE
from torch.overrides import TorchFunctionMode

import heed


class Functions(TorchFunctionMode):
    """Somebody else's."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))


def sdpa_is_heeds():
    """heed refuses both at once."""
    q = torch.ones(1, 1, 1, 4)
    try:
        F.scaled_dot_product_attention(q, q, q, torch.ones(1, 1), is_causal=True)
    except RuntimeError as error:
        return "attn_mask and is_causal: set one or the other" in str(error)
    return False


def flex_is_heeds():
    """PyTorch's has no gradients here."""
    from torch.nn.attention.flex_attention import flex_attention

    try:
        return flex_attention(*[torch.ones(1, 1, 1, 16, requires_grad=True)] * 3).requires_grad
    except NotImplementedError:
        return False


CONTEXTS = {"sdpa": (heed.replace_sdpa, sdpa_is_heeds), "flex": (heed.replace_flex_attention, flex_is_heeds)}


@pytest.fixture(params=CONTEXTS)
def context(request):
    make, is_heeds = CONTEXTS[request.param]
    assert not is_heeds()
    yield make, is_heeds
    assert not is_heeds() and F.scaled_dot_product_attention is NATIVE
    assert not torch.overrides._get_current_function_mode_stack()


def elsewhere(function):
    """What it returns on a thread of its own."""
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        return pool.submit(function).result()


def test_left_on_another_thread(context):
    make, is_heeds = context
    entered = make()
    elsewhere(entered.__enter__)
    entered.__exit__(None, None, None)
    entered = make()
    entered.__enter__()
    assert is_heeds() and not elsewhere(is_heeds)
    elsewhere(lambda: entered.__exit__(None, None, None))
    assert not is_heeds()
    with make():  # which clears away what the other thread could not
        assert is_heeds()


def test_one_object_on_two_threads(context):
    make, is_heeds = context
    shared, entered, left = make(), threading.Event(), threading.Event()

    def other():
        with shared:
            entered.set()
            left.wait(10)
            return is_heeds()

    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        with shared:
            found = pool.submit(other)
            entered.wait(10)
        assert not is_heeds()
        left.set()
        assert found.result()


def test_tasks(context):
    make, is_heeds = context

    async def main():
        entered, left, over, found = asyncio.Event(), asyncio.Event(), asyncio.Event(), {}

        async def child():
            found["made inside"] = is_heeds()
            await over.wait()
            found["made inside of what was left"] = is_heeds()

        async def inside():
            with make():
                made_inside = asyncio.create_task(child())
                await asyncio.sleep(0)
                entered.set()
                await left.wait()
                found["inside"] = is_heeds()
            over.set()
            await made_inside

        async def beside():
            await entered.wait()
            found["beside"] = is_heeds()
            with make():
                left.set()
                await over.wait()
                found["beside, inside of another"] = is_heeds()

        await asyncio.gather(inside(), beside())
        return found

    found = asyncio.run(main())
    assert len(found) == 5
    assert [name for name, is_inside in found.items() if not is_inside] == ["beside", "made inside of what was left"]


def test_generators(context):
    make, is_heeds = context

    @contextlib.contextmanager
    def wrapped():
        with make():
            yield

    with wrapped():
        assert is_heeds()
    assert not is_heeds()

    def suspended():
        with make():
            yield is_heeds()

    for end in (lambda generator: generator.close(), lambda generator: elsewhere(generator.close), lambda generator: None):
        generator = suspended()
        assert next(generator)
        end(generator)
        del generator
        assert not is_heeds()
    generator = suspended()
    assert contextvars.copy_context().run(next, generator)  # on its own
    assert not is_heeds()
    generator.close()


def test_left_in_any_order(context):
    make, is_heeds = context
    first, second = make(), make()
    heed.enable()
    first.__enter__()
    second.__enter__()
    with Functions():
        first.__exit__(None, None, None)
        heed.disable()
        assert is_heeds() and not elsewhere(is_heeds)
        heed.enable()
        second.__exit__(None, None, None)
        assert is_heeds() and elsewhere(is_heeds)
        assert len(torch.overrides._get_current_function_mode_stack()) == 1
    heed.disable()
