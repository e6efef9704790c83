"""What a call adds to the resident memory of its process, at its peak."""

import ctypes
import re

import heed

# For the environment of the process: glibc gives back what is freed from this size on, and does not keep it for the next call.
RETURNING = {"MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_TRIM_THRESHOLD_": "65536"}


def status_mib(field):
    with open("/proc/self/status", encoding="ascii") as status:
        return int(re.search(field + r":\s*(\d+) kB", status.read())[1]) / 1024


def peak_mib(function):
    """MiB that a call of the function adds, in a process whose environment is RETURNING."""
    heed.release_workspace()
    ctypes.CDLL(None).malloc_trim(0)
    with open("/proc/self/clear_refs", "w", encoding="ascii") as marks:
        marks.write("5")  # the peak starts anew
    before = status_mib("VmRSS")
    function()
    return status_mib("VmHWM") - before
