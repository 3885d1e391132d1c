"""By how much the peak of a process's memory rises: the first lines of a program that a test runs as a child.

A process of its own, because memory that Python once had does not go back. The peak that getrusage tells would not do:
a child begins with that of its parent.
"""

METER = r"""
import re as _re

def _kilobytes(name):
    with open("/proc/self/status") as status:
        return int(_re.search(name + r":\s+(\d+) kB", status.read())[1])

class Meter:
    def __init__(self):
        with open("/proc/self/clear_refs", "w") as refs:
            refs.write("5")  # the peak is now what is in use
        self._before = _kilobytes("VmRSS")

    def risen_mb(self):
        return (_kilobytes("VmHWM") - self._before) // 1024
"""
