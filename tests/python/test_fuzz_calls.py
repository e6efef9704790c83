"""Random calls beside the formula, and that the fuzzer sees faults and makes them small."""

import dataclasses
import pathlib
import subprocess
import sys

import pytest
import torch

FUZZ = pathlib.Path(__file__).resolve().parents[1] / "fuzz"
sys.path.insert(0, str(FUZZ))

import calls  # noqa: E402
import comparison  # noqa: E402
from call import Call  # noqa: E402


def test_random_calls_are_what_the_formula_says():
    """With another seed each time: what is printed says how to see it again."""
    run = subprocess.run([sys.executable, FUZZ / "calls.py", "--seconds", "6"], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout[-4000:] + run.stderr[-2000:]


def test_philox_is_that_of_its_authors():
    """The known answers of Random123 for ten rounds: counter and key of zeros."""
    import formula

    zero = torch.zeros(1, dtype=torch.int64)
    keys = torch.arange(8)
    words = [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]
    expected = [half for word in words for half in (word & 0xFFFF, word >> 16)]
    assert formula.philox(0, zero, zero, zero, keys).tolist() == expected


def _off_under_jumps(call, values):
    places = call.query_positions
    if call.window is not None and isinstance(places, list) and places and not isinstance(places[0], list):
        if any(abs(a - b) > 20 for a, b in zip(places, places[1:])):
            values["output"] = values["output"] + 1e-2


def _nan_in_keys(call, values):
    if call.softcap is not None and "d_key" in values and call.keys > 1:
        values["d_key"] = values["d_key"].index_fill(2, torch.tensor([1]), float("nan"))


def _wrong_lse(call, values):
    if call.heads > call.kv_heads and "lse" in values:
        values["lse"] = values["lse"] * 1.001 + 0.001


FAULTS = {
    "window, jumps": (_off_under_jumps, "output", ("window", "query_positions")),
    "NaN in dK": (_nan_in_keys, "d_key", ("softcap", "wanted")),
    "lse of groups": (_wrong_lse, "lse", ("heads", "lse")),
}


@pytest.mark.parametrize("name", FAULTS)
def test_planted_faults_are_found_and_made_small(name, monkeypatch, tmp_path):
    """In calls of sizes and options that nothing has to do with them. heed's own results are replaced by the formula's, so that
    no other fault is found."""
    fault, of, kept = FAULTS[name]

    def planted(call, given):
        import formula

        clean = comparison.tensors(call)
        values = dict(formula.formula(call, clean, formula.sight(call, clean)).values)
        if not call.lse:
            values.pop("lse")
        fault(call, values)
        return values

    monkeypatch.setattr(comparison, "computed", planted)
    found = None
    for trial in range(2000):
        call = dataclasses.replace(calls.drawn(5, trial), unclean=None, scratch=False)
        if call.queries * call.keys > 900 or not all(getattr(call, option) for option in kept):
            continue
        found = comparison.difference(call)
        if found is not None:
            break
    assert found is not None and found.of == of
    call, found = calls.minimised(call, found, comparison.difference)
    given = {f.name for f in dataclasses.fields(Call) if getattr(call, f.name) != f.default}
    assert found.of == of and call.queries <= 2 and call.keys <= 2 and call.head_dim == call.value_dim == 1
    assert set(kept) <= given <= {*kept, "heads", "queries", "keys", "head_dim", "value_dim", "seed"}, str(call)
    # What is printed is a test, which passes where the fault is not.
    monkeypatch.undo()
    text = calls.as_test(call, found).replace("pathlib.Path(__file__).resolve().parents[1] / \"fuzz\"", repr(str(FUZZ)))
    path = tmp_path / "test_printed.py"
    path.write_text(text, encoding="utf-8")
    module = {"__file__": str(path)}
    exec(compile(text, str(path), "exec"), module)  # noqa: S102
    module["test_a_call_that_differed"]()
