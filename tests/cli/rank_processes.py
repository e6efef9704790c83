"""Processes of `heed train --distributed` as torchrun starts them, each within reach of a test."""

import contextlib
import json
import random
import signal
import socket
import subprocess
import sys
import time

from heed_program import ENVIRONMENT, program

# Seconds that ranks wait for each other, and that a test waits for their end beyond that.
TIME_OUT = 20
PATIENCE = 40


def free_port():
    """Below those that the system gives to connections, one of which would take it before rank 0 listens there."""
    while True:
        port = random.SystemRandom().randrange(20000, 32000)
        with socket.socket() as listener, contextlib.suppress(OSError):
            listener.bind(("127.0.0.1", port))
            return port


class RankProcesses:
    """`with RankProcesses(3, ["train", ...]) as ranks: ...`; `own` gives a rank arguments of its own instead."""

    def __init__(self, ranks, arguments, own=None, time_out=TIME_OUT, **options):
        shared = ENVIRONMENT | {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), "WORLD_SIZE": str(ranks)}
        self.processes = []
        for rank in range(ranks):
            chosen = (own or {}).get(rank, arguments)
            command = [program(), *map(str, chosen), "--distributed", "--time-out", str(time_out), "--threads", "1"]
            self.processes.append(
                subprocess.Popen(
                    command, env=shared | {"RANK": str(rank)}, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE, text=True, encoding="utf-8", **options,
                )  # fmt: skip
            )

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in self.processes:
            process.kill()
            process.communicate()

    def wait_until(self, begun):
        limit = time.monotonic() + 120
        while not begun():
            assert time.monotonic() < limit and all(process.poll() is None for process in self.processes)
            time.sleep(0.01)

    def send(self, rank, sent):
        self.processes[rank].send_signal(sent)

    def ends(self, seconds=120, without=()):
        """(exit code, stdout, stderr) of every rank but those of `without`."""
        limit = time.monotonic() + seconds
        found = []
        for rank, process in enumerate(self.processes):
            if rank not in without:
                output, messages = process.communicate(timeout=max(0.1, limit - time.monotonic()))
                found.append((process.returncode, output, messages))
        return found


def train(ranks, arguments, **options):
    """What the ranks of a run to its end print."""
    with RankProcesses(ranks, ["train", *arguments], **options) as processes:
        return processes.ends()


def torchrun(ranks, arguments, during=lambda process: None):
    """The command that the documents teach, on a port of its own -> CompletedProcess; meanwhile during(process)."""
    command = [sys.executable, "-m", "torch.distributed.run", "--master-port", str(free_port()), "--no-python"]
    command += ["--nproc-per-node", str(ranks), program(), "train", *map(str, arguments)]
    with subprocess.Popen(
        command, env=ENVIRONMENT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8"
    ) as process:
        try:
            during(process)
            output, messages = process.communicate(timeout=600)
        except BaseException:
            process.terminate()  # which ends its ranks
            raise
    return subprocess.CompletedProcess(command, process.returncode, output, messages)


def reported(folder, reports):
    """Whether a run has written so many."""
    path = folder / "metrics.jsonl"
    return path.exists() and path.read_text(encoding="utf-8").count("\n") >= reports


def metrics(folder):
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]


def interrupted(ranks, arguments, folder, rank, sent=signal.SIGTERM, reports=2):
    """A run that is sent a signal on one rank once so many reports are written."""
    with RankProcesses(ranks, ["train", *arguments]) as processes:
        processes.wait_until(lambda: reported(folder, reports))
        processes.send(rank, sent)
        return processes.ends()
