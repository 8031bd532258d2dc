"""A PE that leaves its job by the way with its number: leave.py WAY WAY..., one way for each PE."""
import atexit
import os
import sys
import threading
import time

import gshmem


def finalize():
    gshmem.finalize()


def nothing():
    pass


def late_finalize():
    time.sleep(0.1)
    gshmem.finalize()


def finalize_at_exit():
    atexit.register(gshmem.finalize)


def exception():
    raise RuntimeError("on purpose")


def without_handlers():
    os._exit(0)


def with_views():
    """Capsules and arrays that the interpreter drops when it ends."""
    sys.kept = [gshmem.zeros(10), None]
    sys.kept[1] = sys.kept[0].__dlpack__()


def in_a_wait():
    """A daemon thread waits for a signal that is never sent."""
    signal = gshmem.zeros(1, "uint64")
    threading.Thread(target=gshmem.signal_wait, args=(signal, 1), daemon=True).start()


WAYS = [finalize, nothing, late_finalize, finalize_at_exit, exception, without_handlers]
COLLECTIVE_WAYS = [with_views, in_a_wait]  # all PEs allocate, so all use the same way

if __name__ == "__main__":
    gshmem.init(heap=1 << 20)
    globals()[sys.argv[1 + gshmem.my_pe()]]()
