"""Packages that people use, with and without heed: seconds and memory of a training step and of inference, side by side.

    .venv/bin/python -m pip install --no-deps -r bench/python/packages.txt
    .venv/bin/python bench/python/packages.py [--threads 2] [--seconds 60] [--rounds 15] [--only "NAME;NAME"] [--out build/packages]
    .venv/bin/python bench/python/packages.py --page [--out build/packages]

The first command measures into OUT/packages.json: package_cases.py makes each model as its package's users do, with the
package's sizes and random weights. Each package has a process of its own. There the step with heed and the one without take
turns, after a call each that does not count, and swap places from round to round: as many rounds as fit into --seconds, at
least 3, at most --rounds. MiB is what the memory of a second process grows by in a step, at its peak. zentorch, where it is
installed, is timed for inference in a third process, in turns with plain PyTorch. A package that is not installed, or whose
process fails, is a row that says so.

Losses are compared twice, from equal weights and with the same batch: the loss and all gradients of one step with every dropout
off, and the losses of five steps with dropout, which differ as those of another seed of dropout do without heed. Gradients may
differ by a thousandth of their length, or by what PyTorch's own on one thread and on several differ.

--page makes of it OUT/packages.csv with every figure, and prints the table of the documents.
"""

import argparse
import csv
import datetime
import importlib.metadata
import json
import math
import os
import pathlib
import platform
import random
import statistics
import subprocess
import sys
import time

from memory import RETURNING, peak_mib
from package_case import SWITCHES
from package_cases import CASES
from package_figures import PASSES, WAYS, calls_said, csv_rows, ratio, remark, table
from turns import milliseconds

STEPS = 5
# float32: what sums in another order differ by, of the loss and of the length of all gradients.
LOSS_APART, GRADIENTS_APART, OUTPUTS_APART = 1e-5, 1e-3, 1e-3


def built(case, way="without"):
    """The model of a case and a function for each pass, with equal weights each time."""
    import numpy
    import torch

    for seed in (torch.manual_seed, numpy.random.seed, random.seed):
        seed(0)
    tried = case.make()
    switch = SWITCHES[case.heed] if way == "with" else SWITCHES[""]
    switch.model(tried.model)
    optimizer = tried.optimizer(tried.model)

    def training():
        with switch.context():
            loss = tried.loss(tried.model.train())
            loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss.detach()

    def inference():
        with torch.no_grad(), switch.context():
            return tried.infer(tried.model.eval())

    return tried, switch, {"training": training, "inference": inference}


def without_dropout(model):
    """Sets every attribute of a module that is a rate of dropping to 0."""
    for module in model.modules():
        for name, value in vars(module).items():
            if isinstance(value, float) and ("drop" in name or (name == "p" and "Drop" in type(module).__name__)):
                setattr(module, name, 0.0)


def one_step(case, way):
    """The loss and the gradients of a step without dropout, one row of numbers."""
    import torch

    tried, switch, _ = built(case, way)
    without_dropout(tried.model.train())
    torch.manual_seed(1)
    with switch.context():
        loss = tried.loss(tried.model)
        loss.backward()
    gradients = [p.grad.flatten().double() for p in tried.model.parameters() if p.grad is not None]
    return loss.item(), torch.cat(gradients)


def on_one_thread(case, gradients):
    """How far the gradients are from those that PyTorch computes on one thread: what sums in another order do to this model."""
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    ours = one_step(case, "without")[1]
    torch.set_num_threads(threads)
    return ((gradients - ours).norm() / gradients.norm()).item()


def losses(case, way, seed):
    import torch

    passes = built(case, way)[2]
    torch.manual_seed(seed)
    return [passes["training"]().item() for _ in range(STEPS)]


def tensors(value):
    """Those in an output, however it is packed."""
    import numpy
    import torch

    if isinstance(value, torch.Tensor):
        return [value.detach()] if value.is_floating_point() else []
    if isinstance(value, numpy.ndarray):
        return [torch.from_numpy(value)] if value.dtype.kind == "f" else []
    values = value.values() if isinstance(value, dict) else value if isinstance(value, (list, tuple)) else ()
    return [tensor for part in values for tensor in tensors(part)]


def outputs_apart(case):
    """The largest difference of inference's outputs over the largest output."""
    import torch

    outputs = []
    for way in WAYS:
        inference = built(case, way)[2]["inference"]
        torch.manual_seed(1)
        outputs.append(torch.cat([tensor.flatten().double() for tensor in tensors(inference())]))
    plain, ours = outputs
    finite = plain.isfinite()
    assert torch.equal(finite, ours.isfinite()), f"{case.name}: other outputs are finite with heed"
    return ((plain - ours)[finite].abs().max() / plain[finite].abs().max()).item()


def agreement(case):
    """How far apart heed and PyTorch are; AssertionError where that is farther than rounding."""
    (plain, plain_gradients), (ours, our_gradients) = (one_step(case, way) for way in WAYS)
    found = {"loss": plain, "loss apart": abs(plain - ours) / abs(plain)}
    found["gradients apart"] = ((plain_gradients - our_gradients).norm() / plain_gradients.norm()).item()
    assert found["loss apart"] < LOSS_APART, f"{case.name}: loss {plain} without heed, {ours} with"
    limit = GRADIENTS_APART if found["gradients apart"] < GRADIENTS_APART else on_one_thread(case, plain_gradients)
    assert found["gradients apart"] < limit, f"{case.name}: gradients {found['gradients apart']:.1e} apart"
    found["losses"] = {
        "without": losses(case, "without", 1), "with": losses(case, "with", 1), "another seed": losses(case, "without", 2),
    }  # fmt: skip
    found["outputs apart"] = outputs_apart(case)
    assert found["outputs apart"] < OUTPUTS_APART, f"{case.name}: outputs {found['outputs apart']:.1e} apart"
    return found


def reached(case):
    """{pass: [calls of attention that heed computed, all calls, what the others were]}"""
    import heed

    found = {}
    for name, function in built(case, "with")[2].items():
        with heed.calls() as seen:
            function()
        ours, others = sum(row.times for row in seen.rows if row.by_heed), {}
        for row in seen.rows:
            if not row.by_heed:
                kind = f"{row.function} of {row.module.rpartition('.')[2]}" if not row.note else f"{row.function}: {row.note}"
                others[kind] = others.get(kind, 0) + row.times
        found[name] = [ours, ours + sum(others.values()), others]
    return found


def rounds_of(functions, arguments):
    """After a call of each: how many rounds fit into --seconds."""
    for function in functions.values():
        function()
    start = time.perf_counter()
    for function in functions.values():
        function()
    return max(3, min(arguments.rounds, int(arguments.seconds / (time.perf_counter() - start))))


def times(case, arguments):
    """{pass: {way: seconds of all rounds}}"""
    passes = {way: built(case, way)[2] for way in WAYS}
    found = {}
    for name in passes["without"]:
        functions = {way: passes[way][name] for way in WAYS}
        taken = milliseconds(functions, rounds_of(functions, arguments))
        found[name] = {way: [ms / 1000 for ms in taken[way]] for way in WAYS}
    return found


def measured_times(case, arguments):
    import torch

    parameters = sum(p.numel() for p in built(case)[0].model.parameters())
    row = {"parameters": parameters, "torch": torch.__version__, "calls": reached(case), "agreement": agreement(case)}
    return {**row, "seconds": times(case, arguments)}


def measured_memory(case, arguments):
    """{pass: {way: MiB}}, in a process whose environment is RETURNING."""
    found = {}
    for way in WAYS:
        passes = built(case, way)[2]
        for name, function in passes.items():
            function()
            found.setdefault(name, {})[way] = peak_mib(function)
    return {"MiB": found}


def measured_zentorch(case, arguments):
    """Inference by torch.compile's backend of zentorch beside plain PyTorch, in turns."""
    import torch
    import zentorch  # noqa: F401

    plain, compiled = (built(case)[2]["inference"] for _ in range(2))
    functions = {"without": plain, "zentorch": torch.compile(compiled, backend="zentorch")}
    taken = milliseconds(functions, rounds_of(functions, arguments))
    return {"zentorch": {way: [ms / 1000 for ms in taken[way]] for way in functions}}


CHILDREN = {"times": measured_times, "memory": measured_memory, "zentorch": measured_zentorch}


def child(case, part, arguments):
    """What a process of its own measures of a case; what went wrong, in a line, where it could not."""
    command = [sys.executable, __file__, "--child", part, "--only", case.name, "--threads", str(arguments.threads)]
    command += ["--seconds", str(arguments.seconds), "--rounds", str(arguments.rounds)]
    environment = {**os.environ, **(RETURNING if part == "memory" else {}), **case.environment}
    ran = subprocess.run(command, check=False, capture_output=True, text=True, env=environment)
    lines = [line for line in ran.stdout.splitlines() if line.startswith("{")]
    if ran.returncode == 0 and lines:
        return json.loads(lines[-1])
    reason = (ran.stderr.strip().splitlines() or [""])[-1]
    return {f"{part} failed": f"exit {ran.returncode}: {reason}"[:300]}


def version(package):
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def measured(case, arguments):
    """The row of a case."""
    row = {
        "name": case.name, "package": case.package, "version": version(case.package), "heed": case.heed, "as": case.sizes,
        "note": case.note,
    }  # fmt: skip
    if row["version"] is None:
        return {**row, "failed": "not installed"}
    row |= child(case, "times", arguments)
    if "times failed" not in row:
        row |= child(case, "memory", arguments)
        if version("zentorch") is not None:
            row |= child(case, "zentorch", arguments)
    return row


def machine():
    """The processor's name."""
    with open("/proc/cpuinfo", encoding="utf-8") as lines:
        return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine())


def conditions(arguments):
    import torch

    import heed

    return {
        "date": datetime.date.today().isoformat(), "processor": machine(), "heed": heed.__version__,
        "target": heed.info()["targets"][0], "torch": torch.__version__, "zentorch": version("zentorch"), "threads": arguments.threads,
        "seconds": arguments.seconds, "rounds": arguments.rounds,
    }  # fmt: skip


def page(out):
    record = json.loads((out / "packages.json").read_text(encoding="utf-8"))
    rows = list(csv_rows(record["rows"]))
    with open(out / "packages.csv", "w", encoding="utf-8", newline="") as lines:
        writer = csv.DictWriter(lines, rows[0], lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    print(table(record["rows"]))
    print("\n" + ", ".join(f"{name} {value}" for name, value in record["conditions"].items()))


def other_rows(path, found, cases):
    """Rows of PATH that are not of these cases; they must come from the same machine and versions."""
    if not path.exists() or len(cases) == len(CASES):
        return []
    record = json.loads(path.read_text(encoding="utf-8"))
    for key in ("processor", "heed", "target", "torch", "zentorch", "threads"):
        if record["conditions"][key] != found[key]:
            sys.exit(f"{path} was measured with {key} {record['conditions'][key]}, and not {found[key]}: choose another --out")
    return [row for row in record["rows"] if row["name"] not in {case.name for case in cases}]


def in_order(rows):
    """Rows as CASES has them."""
    names = [case.name for case in CASES]
    return sorted(rows, key=lambda row: names.index(row["name"]))


def measure(cases, arguments):
    out = arguments.out
    out.mkdir(parents=True, exist_ok=True)
    record = {"conditions": conditions(arguments)}
    record["rows"] = other_rows(out / "packages.json", record["conditions"], cases)
    print(", ".join(f"{name} {value}" for name, value in record["conditions"].items()), flush=True)
    columns = " ".join(f"{f'{name} without':>19} {'with':>19} {'ratio':>6}" for name in PASSES)
    print(f"{'s of a step, least (median)':32} {columns}")
    for case in cases:
        row = measured(case, arguments)
        record["rows"] = in_order([*record["rows"], row])
        (out / "packages.json").write_text(json.dumps(record, indent=1), encoding="utf-8")
        cells = []
        for name in PASSES:
            taken = row.get("seconds", {}).get(name, dict.fromkeys(WAYS, [math.nan]))
            cells += [f"{min(taken[way]):9.4f} ({statistics.median(taken[way]):7.4f})" for way in WAYS]
            cells.append(f"{ratio(row, name) or math.nan:6.2f}")
        print(f"{case.name:32} {' '.join(cells)} {calls_said(row)} {remark(row)}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=60, help="for the rounds of each pass")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--only", default="", help="names of models, with ; between; OUT's rows of others stay")
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("build/packages"))
    parser.add_argument("--page", action="store_true")
    parser.add_argument("--child", choices=CHILDREN, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.page:
        page(arguments.out)
        return
    names = [name for name in arguments.only.split(";") if name]
    unknown = set(names) - {case.name for case in CASES}
    if unknown:
        parser.error(f"--only: expected names of {', '.join(case.name for case in CASES)}; got {', '.join(sorted(unknown))}")
    cases = [case for case in CASES if not names or case.name in names]
    import torch

    torch.set_num_threads(arguments.threads)
    if arguments.child:
        print(json.dumps(CHILDREN[arguments.child](cases[0], arguments)))
    else:
        measure(cases, arguments)


if __name__ == "__main__":
    main()
