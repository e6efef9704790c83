"""Peak memory of each process of `heed train --sequence-ranks`, by their number.

    python bench/python/sequence_training_memory.py --context 8192 --ranks 1,2,4

What a process takes beyond a run whose context is 64 is told: activations, gradients and tables that grow with the context.
The program is build/bin/heed, or $HEED_PROGRAM.
"""

import argparse
import os
import pathlib
import re
import socket
import subprocess
import tempfile
import time

import memory

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = os.environ.get("HEED_PROGRAM", ROOT / "build/bin/heed")


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--context", type=int, default=8192)
    parser.add_argument("--ranks", default="1,2,4", help="numbers of processes that share a window")
    parser.add_argument("--width", type=int, default=128)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--position", default="rotary")
    return parser.parse_args()


def started(asked, text, out, ranks, context):
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
    command = [PROGRAM, "train", text, "--out", out, "--context", context, "--batch", 1, "--steps", 2, "--eval-every", 2]
    command += ["--width", asked.width, "--layers", asked.layers, "--position", asked.position, "--threads", 1, "--quiet"]
    command += ["--distributed", "--sequence-ranks", ranks]
    shared = os.environ | memory.RETURNING | {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": str(ranks)}
    return [
        subprocess.Popen([str(word) for word in command], env=shared | {"RANK": str(rank)}, stdout=subprocess.DEVNULL)
        for rank in range(ranks)
    ]


def peaks(asked, text, out, ranks, context):
    """MiB of each process at its peak."""
    processes = started(asked, text, out, ranks, context)
    found = [0.0] * ranks
    while any(process.poll() is None for process in processes):
        for rank, process in enumerate(processes):
            try:
                status = pathlib.Path(f"/proc/{process.pid}/status").read_text(encoding="ascii")
            except OSError:
                continue
            peak = re.search(r"VmHWM:\s*(\d+) kB", status)
            found[rank] = max(found[rank], int(peak[1]) / 1024) if peak else found[rank]
        time.sleep(0.01)
    if any(process.returncode != 0 for process in processes):
        raise SystemExit("heed train failed")
    return found


def main():
    asked = arguments()
    counts = [int(count) for count in asked.ranks.split(",")]
    with tempfile.TemporaryDirectory() as folder:
        text = pathlib.Path(folder, "text.txt")
        text.write_text("one two, three! four five\n" * (asked.context // 2), encoding="ascii")
        first = None
        for count in counts:
            short = max(peaks(asked, text, f"{folder}/short{count}", count, 64))
            long = max(peaks(asked, text, f"{folder}/long{count}", count, asked.context))
            first = first or long - short
            print(f"ranks {count}  peak {long:.0f} MiB  of context 64 {short:.0f} MiB  more {long - short:.0f} MiB  "
                  f"of the first {(long - short) / first:.3f}", flush=True)


if __name__ == "__main__":
    main()
