"""What positional schemes are worth on a text: the same small language model with each, trained as the study trains, evaluated
on a part of the text that neither trained nor chose the rate, within the length of training and at several times it.

    .venv/bin/python bench/python/position_texts.py TEXT --out FOLDER [--heed build/bin/heed] [--positions none,alibi,rotary+l2]
        [--steps 1600] [--seeds 5] [--rates 0.003,0.006,0.012] [--context 64] [--times 1,4]

The last tenth of the text is for the test; of the rest `heed train` keeps the last tenth apart, which chooses the rate of each
scheme with seed 0. Finished runs in FOLDER are read, not made again. Prints a table: the mean of the seeds' test losses, nats per
character, with half the width of the 95 % interval of that mean (Student's t), best first. rotary+l2 is rotary beside queries and
keys that are normalised so (--query-key-norm). Needs scipy.
"""

import argparse
import json
import pathlib
import statistics
import subprocess

from scipy import stats

SCHEMES = (
    "none,sinusoidal,learned,rotary,xpos,alibi,relative,t5,shaw,kerple,kerple_power,sandwich,fire,temperature,sinusoidal_bias,"
    "transformer_xl,deberta,cope"
)


def parts(text, out):
    """The paths of the text to train with and of the text to test with."""
    content = text.read_text(encoding="utf-8")
    cut = len(content) * 9 // 10
    paths = out / "train.txt", out / "test.txt"
    for path, part in zip(paths, (content[:cut], content[cut:])):
        path.write_text(part, encoding="utf-8")
    return paths


class Runs:
    def __init__(self, options):
        self.options = options
        self.out = pathlib.Path(options.out)
        self.out.mkdir(parents=True, exist_ok=True)
        self.text, self.test = parts(pathlib.Path(options.text), self.out)

    def heed(self, *arguments):
        command = [self.options.heed, *map(str, arguments), "--threads", "1", "--quiet"]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout

    def train(self, position, rate, seed):
        """The folder of a finished run."""
        o = self.options
        folder = self.out / f"{position}-{rate}-{seed}"
        if not (folder / "finished").exists():
            scheme, _, norm = position.partition("+")
            self.heed(
                "train", self.text, "--out", folder, "--position", scheme, "--query-key-norm", norm or "none", "--seed", seed,
                "--lr", rate, "--steps", o.steps, "--eval-every", o.steps, "--layers", 2, "--heads", 4, "--width", 64,
                "--context", o.context, "--batch", 8,
            )  # fmt: skip
            (folder / "finished").touch()
        return folder

    def chosen_rate(self, position):
        """That of the least loss on the part that training keeps apart."""

        def loss(rate):
            lines = (self.train(position, rate, 0) / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
            return json.loads(lines[-1])["val_loss"]

        return min(self.options.rates, key=loss)

    def test_losses(self, folder):
        """One for each length."""
        kept = folder / "test.json"
        if not kept.exists():
            lengths = ",".join(str(times * self.options.context) for times in self.options.times)
            kept.write_text(self.heed("eval", folder, self.test, "--context", lengths, "--beyond", "clamp", "--json"), encoding="utf-8")
        return [row["loss"] for row in json.loads(kept.read_text(encoding="utf-8"))["rows"]]


def interval(values):
    """The mean and half the width of its 95 % interval."""
    spread = statistics.stdev(values) / len(values) ** 0.5 * stats.t.ppf(0.975, len(values) - 1)
    return statistics.mean(values), spread


def listed(kind):
    return lambda text: [kind(item) for item in text.split(",")]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("text")
    parser.add_argument("--out", required=True)
    parser.add_argument("--heed", default="build/bin/heed")
    parser.add_argument("--positions", type=listed(str), default=SCHEMES.split(","))
    parser.add_argument("--steps", type=int, default=1600)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--rates", type=listed(float), default=[0.003, 0.006, 0.012])
    parser.add_argument("--context", type=int, default=64)
    parser.add_argument("--times", type=listed(int), default=[1, 4])
    options = parser.parse_args()
    runs, rows = Runs(options), []
    for position in options.positions:
        rate = runs.chosen_rate(position)
        losses = zip(*(runs.test_losses(runs.train(position, rate, seed)) for seed in range(options.seeds)))
        rows.append((position, rate, [interval(of_length) for of_length in losses]))
        print(position, rate, *(f"{mean:.4f} +- {spread:.4f}" for mean, spread in rows[-1][2]), flush=True)
    print("\n| | rate |" + "".join(f" {times * options.context} |" for times in options.times))
    print("|---|---|" + "---|" * len(options.times))
    for position, rate, means in sorted(rows, key=lambda row: row[2][0][0]):
        print(f"| {position} | {rate:g} |" + "".join(f" {mean:.3f} ± {spread:.3f} |" for mean, spread in means))


if __name__ == "__main__":
    main()
