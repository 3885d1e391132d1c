"""Signals and protected blocks, with several runs in one process: a commit that began is finished."""

import signal
import subprocess
import sys

from patience import patient

PROGRAM = """
import os, signal, sys, threading
from packstone.runs.interrupts import Interrupted, finish_first, interruptible

is_inside, may_leave = threading.Event(), threading.Event()


def other_run():
    with finish_first():
        is_inside.set()
        may_leave.wait()


thread = threading.Thread(target=other_run)
try:
    with interruptible():
        thread.start()
        is_inside.wait()
        if sys.argv[1] == "protected":
            with finish_first():
                print("begun", flush=True)
                sys.stdin.readline()  # until the signal was sent
                print("finished", flush=True)
        else:
            print("begun", flush=True)
            sys.stdin.readline()
            print("not interrupted", flush=True)
        print("went on", flush=True)
except Interrupted:
    print("interrupted", flush=True)
finally:
    may_leave.set()
    thread.join()
"""


def run_program(kind):
    """Start it, send SIGTERM while the other thread is inside its block, and return what it printed."""
    command = [sys.executable, "-c", PROGRAM, kind]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "begun\n"
    process.send_signal(signal.SIGTERM)
    out, _ = process.communicate("\n", timeout=patient(60))
    return out.split("\n")[:-1]


def test_a_block_of_another_thread_does_not_expose_ours():
    """While another run is inside its block, a SIGTERM waits for ours too, and comes when ours is done."""
    assert run_program("protected") == ["finished", "interrupted"]


def test_a_block_of_another_thread_does_not_protect_us():
    """Outside of a block of our own a SIGTERM comes at once."""
    assert run_program("open") == ["interrupted"]
