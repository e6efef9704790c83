"""Processes that are the ranks of a group, and do what a test sends them."""

import contextlib
import importlib
import multiprocessing
import os
import signal
import tempfile
import traceback
from datetime import timedelta

import torch
import torch.distributed as dist

TIMEOUT = 20.0


def _serve(pipe, rank, ranks, store, timeout):
    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo", store=dist.FileStore(store, ranks), rank=rank, world_size=ranks, timeout=timedelta(seconds=timeout)
    )
    groups = {n: dist.new_group(list(range(n)), timeout=timedelta(seconds=timeout)) for n in range(1, ranks + 1)}
    pipe.send("ready")
    while (asked := pipe.recv()) is not None:
        module, function, count, arguments = asked
        try:
            answer = getattr(importlib.import_module(module), function)(groups[count], *arguments)
        except Exception as error:
            answer = (type(error).__name__, str(error), traceback.format_exc())
            pipe.send(("raised", answer))
        else:
            pipe.send(("returned", answer))
    os._exit(0)  # Gloo's threads would be waited for


class Raised(Exception):
    """What ranks raised: [(type, message, traceback)] by rank, None where one returned."""

    def __init__(self, by_rank):
        super().__init__("\n".join(f"rank {rank}: {of[2]}" for rank, of in enumerate(by_rank) if of))
        self.by_rank = by_rank


class Ranks:
    """As many processes; `with Ranks(4) as ranks: ranks.run("module", "function", 3, ...)`."""

    def __init__(self, ranks, timeout=TIMEOUT):
        context = multiprocessing.get_context("spawn")
        self._folder = tempfile.TemporaryDirectory()
        pipes = [context.Pipe() for _ in range(ranks)]
        self._pipes = [own for own, _ in pipes]
        store = os.path.join(self._folder.name, "store")
        self._processes = [
            context.Process(target=_serve, args=(theirs, rank, ranks, store, timeout), daemon=True)
            for rank, (_, theirs) in enumerate(pipes)
        ]
        for process in self._processes:
            process.start()
        for (_, theirs), own in zip(pipes, self._pipes):
            theirs.close()
            assert own.poll(120) and own.recv() == "ready"

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for pipe in self._pipes:
            with contextlib.suppress(OSError):
                pipe.send(None)
        for process in self._processes:
            process.join(5)
            process.kill()
            process.join()
        self._folder.cleanup()

    def start(self, module, function, ranks, *arguments):
        """Each of the first `ranks` processes calls module.function(group, *arguments)."""
        for pipe in self._pipes[:ranks]:
            pipe.send((module, function, ranks, arguments))

    def answers(self, ranks, seconds=120.0):
        """By rank what it returned; a rank that is gone is None. Raised, where any raised."""
        found = []
        for pipe in self._pipes[:ranks]:
            try:
                assert pipe.poll(seconds), "a rank does not answer"
                found.append(pipe.recv())
            except EOFError:
                found.append(("gone", None))
        raised = [answer if kind == "raised" else None for kind, answer in found]
        if any(raised):
            raise Raised(raised)
        return [answer for _, answer in found]

    def run(self, module, function, ranks, *arguments):
        """start and answers."""
        self.start(module, function, ranks, *arguments)
        return self.answers(ranks)

    def kill(self, rank):
        """As `kill -9`."""
        os.kill(self._processes[rank].pid, signal.SIGKILL)
        self._processes[rank].join()
