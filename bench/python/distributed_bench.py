"""heed.distributed.attention on one machine, a core for each rank: time and memory beside one rank.

    python bench/python/distributed_bench.py --steps 16384 --ranks 1,2              # speed-up of forward plus backward
    python bench/python/distributed_bench.py --steps 65536 --ranks 1,2,4 --memory   # what a call adds to each rank's memory

Rank r computes on core r, where there is one; numbers of ranks take turns from round to round, and the least time of each counts.
Arrays are the rank's own from the beginning.
"""

import argparse
import json
import os
import tempfile
import time
from datetime import timedelta

import memory
import torch
import torch.distributed as dist
import torch.multiprocessing

import heed
import heed.distributed


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=16384, help="tokens of the whole sequence")
    parser.add_argument("--ranks", default="1,2", help="numbers of ranks, the first of which the others are compared with")
    parser.add_argument("--heads", type=int, default=8)
    parser.add_argument("--width", type=int, default=64, help="of a head")
    parser.add_argument("--method", default="auto", choices=["auto", "ring", "all_to_all"])
    parser.add_argument("--full", action="store_true", help="without causality; with it the layout is a zigzag")
    parser.add_argument("--memory", action="store_true", help="memory instead of time")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    return parser.parse_args()


def call_of(asked, group, ranks):
    """A call of this rank: its arrays, forward, and backward where it is not for warming up."""
    layout = {} if asked.full else {"causal": True, "layout": "zigzag"}

    def call(steps=asked.steps):
        shape = (1, asked.heads, steps // ranks, asked.width)
        query, key, value = (torch.randn(shape, requires_grad=True) for _ in range(3))
        output = heed.distributed.attention(query, key, value, group=group, method=asked.method, **layout)
        output.backward(torch.ones_like(output))

    return call


def measured(asked, rank, counts, groups):
    """{ranks: a number for each round}; seconds until all are done, or MiB that the call adds to this rank."""
    found = {count: [] for count in counts}
    for number in range(1 if asked.memory else asked.rounds):
        for count in counts if number % 2 == 0 else reversed(counts):
            call = call_of(asked, groups[count], count)
            if rank < count:
                call(2 * 4 * count)  # what is made once
            dist.barrier()
            start = time.perf_counter()
            if rank < count:
                added = memory.peak_mib(call) if asked.memory else call()
            dist.barrier()
            taken = time.perf_counter() - start
            if rank < count:
                found[count].append(added if asked.memory else taken)
    return found


def serve(rank, asked, counts, store, out):
    torch.set_num_threads(1)
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {cores[rank % len(cores)]})
    size = max(counts)
    dist.init_process_group("gloo", store=dist.FileStore(store, size), rank=rank, world_size=size, timeout=timedelta(minutes=30))
    groups = {count: dist.new_group(list(range(count)), timeout=timedelta(minutes=30)) for count in counts}
    found = measured(asked, rank, counts, groups)
    with open(f"{out}.{rank}", "w", encoding="ascii") as file:
        json.dump(found, file)
    dist.barrier()
    os._exit(0)  # Gloo's threads would be waited for


def main():
    asked = arguments()
    counts = [int(count) for count in asked.ranks.split(",")]
    if asked.steps % (2 * max(counts)) != 0 or any(asked.steps % (2 * count) for count in counts):
        raise SystemExit(f"--steps: expected a multiple of two parts a rank, got {asked.steps}")
    if asked.memory:
        os.environ.update(memory.RETURNING)
    with tempfile.TemporaryDirectory() as folder:
        out = os.path.join(folder, "found")
        torch.multiprocessing.spawn(serve, (asked, counts, os.path.join(folder, "store"), out), nprocs=max(counts))
        by_rank = []
        for rank in range(max(counts)):
            with open(f"{out}.{rank}", encoding="ascii") as file:
                by_rank.append({int(count): numbers for count, numbers in json.load(file).items()})
    rows = []
    for count in counts:
        if asked.memory:
            most = max(by_rank[rank][count][0] for rank in range(count))
            rows.append({"ranks": count, "mib_a_rank": round(most, 1), "of_one": None})
        else:
            rows.append({"ranks": count, "seconds": round(min(by_rank[0][count]), 3), "speed_up": None})
    for row in rows:
        if asked.memory:
            row["of_one"] = round(row["mib_a_rank"] / rows[0]["mib_a_rank"], 3)
        else:
            row["speed_up"] = round(rows[0]["seconds"] / row["seconds"], 2)
        print(json.dumps(row) if asked.json else "  ".join(f"{name} {value}" for name, value in row.items()))


if __name__ == "__main__":
    main()
