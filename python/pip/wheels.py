"""Wheels for other machines; ./dev wheels calls it.

    python wheels.py FOLDER NAME..     NAME: inference (heed_inference, of what lies in build/), torch (heed beside this Python's torch)

Builds each wheel, has auditwheel name the oldest Linux that it runs on, bounds its size, looks for the notices of what is compiled
in, installs it offline into a fresh environment and tests it there. FOLDER/dist then has the wheels, FOLDER/venv has auditwheel.
Ends with 1 where anything fails.
"""

import os
import pathlib
import subprocess
import sys
import sysconfig
import time
import venv
import zipfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
OURS = pathlib.Path(sysconfig.get_path("purelib"))
# What runs tests, and what it needs.
PYTEST = ("pytest", "_pytest", "py", "pluggy", "iniconfig", "packaging", "pygments", "exceptiongroup", "tomli")
NUMPY = ("numpy", "numpy.libs")
# Of the package beside torch: calls, layers, caches, derivatives of both orders, programs, released names; JAX where it is installed.
TESTS = ("attention", "sdpa", "modules", "cache", "second_derivatives", "programs", "released", "jax")
# A step of a training, with heed's attention in it.
TRAINS = """
import heed, torch
layer = heed.book.MultiHeadAttention(num_hiddens=32, num_heads=4, dropout=0.1)
X = torch.randn(2, 50, 32)
optimizer = torch.optim.SGD(layer.parameters(), 0.1)
before = layer.W_q.weight.clone()
layer(X, X, X).square().mean().backward()
optimizer.step()
assert not torch.equal(before, layer.W_q.weight) and "site-packages" in heed.__file__, heed.__file__
"""


def run(*command, **options):
    """Raises where it fails; what it prints is shown then."""
    result = subprocess.run(list(map(str, command)), text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False, **options)
    if result.returncode:
        sys.exit(f"{result.stdout}\ndev: {' '.join(map(str, command))} ended with {result.returncode}")
    return result.stdout


def environment(folder, wheel, packages):
    """The Python of a fresh environment with the wheel, and of this one's packages those named; None: it sees all of them."""
    venv.create(folder, clear=True, with_pip=False)
    python = folder / "bin" / "python"
    site = pathlib.Path(run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip())
    if packages is None:
        (site / "packages.pth").write_text(f"{OURS}\n", encoding="utf-8")
    for name in packages or ():
        for path in (OURS / name, OURS / f"{name}.py"):
            if path.exists():
                (site / path.name).symlink_to(path)
    run(sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--no-index", *([] if packages else ["--no-deps"]), wheel)
    return python


def test_inference(folder, wheel):
    """The tests of the package, with NumPy and without."""
    for name, packages in (("numpy", PYTEST + NUMPY), ("nothing", PYTEST)):
        python = environment(folder / name, wheel, packages)
        origin = run(python, "-c", "import heed_inference; print(heed_inference.__file__)", cwd=folder).strip()
        if not origin.startswith(str(folder)):
            sys.exit(f"dev: the tests would import {origin}")
        told = run(python, "-m", "pytest", "-q", "-m", "not long", ROOT / "tests/python/test_heed_inference.py", cwd=ROOT)
        print(f"dev: beside {name}: {told.strip().splitlines()[-1]}", file=sys.stderr)


def test_torch(folder, wheel):
    python = environment(folder / "torch", wheel, None)
    run(python, "-m", "heed", "info", cwd=folder)
    run(python, "-c", TRAINS, cwd=folder)
    run(folder / "torch" / "bin" / "heed", "--version", cwd=folder)
    told = run(python, "-m", "pytest", "-q", "-m", "not long", *(ROOT / f"tests/python/test_{name}.py" for name in TESTS), cwd=ROOT)
    version = run(python, "-c", "import torch; print(torch.__version__)").strip()
    print(f"dev: beside torch {version}: {told.strip().splitlines()[-1]}", file=sys.stderr)


# Debian's packages whose code is compiled in. Their notices ask to go where the code goes; those of Boost and fmt do not.
NOTICES = ("libhwy-dev", "nlohmann-json3-dev")
# Source, MiB that the wheel may have, config settings of its build, packages whose notices it carries, its test.
WHEELS = {
    "inference": (ROOT / "inference/python", 3, {"cmake.define.HEED_BUILT": ROOT / "build"}, NOTICES, test_inference),
    "torch": (ROOT, 12, {}, (*NOTICES, "libcli11-dev"), test_torch),
}


def require_notices(wheel, packages):
    """heed's own licence and these notices lie in the wheel's .dist-info/licenses."""
    held = {name.partition(".dist-info/licenses/")[2] for name in zipfile.ZipFile(wheel).namelist()}
    for name in ("LICENSE", *packages):
        if name not in held:
            place = f"/usr/share/doc/{name}/copyright, or below the folder of CMAKE_ARGS=-DHEED_NOTICES=FOLDER"
            sys.exit(f"dev: {wheel.name} lacks the notice {name}" + (f": expected {place}" if name in packages else ""))


def make(folder, name):
    begun = time.monotonic()
    source, most, settings, notices, test = WHEELS[name]
    build, raw, dist = folder / f"build-{name}", folder / f"raw-{name}", folder / "dist"
    tools = folder / "venv" / "bin"
    settings = {"build-dir": build, **settings}
    if name == "torch":
        code = "import importlib.util as i; print(i.find_spec('jaxlib').submodule_search_locations[0])"
        settings["cmake.define.HEED_JAXLIB_INCLUDES"] = run(tools / "python", "-c", code).strip() + "/include"
    for old in raw.glob("*.whl"):
        old.unlink()
    given = [f"--config-settings={key}={value}" for key, value in settings.items()]
    run(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "-w", raw, *given, source)
    (built,) = raw.glob("*.whl")
    dist.mkdir(exist_ok=True)
    kind = built.name.split("-")[0]
    for old in dist.glob(f"{kind}-*.whl"):
        old.unlink()
    path = os.pathsep.join([str(tools), os.environ["PATH"]])
    excluded = [f"--exclude={library}" for library in ("libtorch*.so*", "libc10*.so*", "libgomp*.so*")]
    run(tools / "python", "-m", "auditwheel", "repair", "-w", dist, *excluded, built, env=os.environ | {"PATH": path})
    (wheel,) = dist.glob(f"{kind}-*.whl")
    size = wheel.stat().st_size / 2**20
    took = time.monotonic() - begun
    if size > most:
        sys.exit(f"dev: {wheel.name} has {size:.1f} MiB; expected at most {most}")
    require_notices(wheel, notices)
    test(folder / "environments", wheel)
    print(f"dev: {wheel.name}: {size:.1f} MiB, built in {took:.0f} s, tested in {time.monotonic() - begun - took:.0f} s", file=sys.stderr)
    print(wheel)


if __name__ == "__main__":
    place = pathlib.Path(sys.argv[1]).resolve()
    (place / "environments").mkdir(parents=True, exist_ok=True)
    for wanted in sys.argv[2:]:
        make(place, wanted)
