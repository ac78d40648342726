"""Which core a gateway's process runs on: one, where the system lets us say so.

Python's lock lets one thread compute at a time. SQLite gives it up for each of a task's some fifty statements; with
several cores it wanders between them, and everything the threads look at wanders along from cache to cache: with four
clients a task's life took half as much CPU again, or twice (`docs/decisions/0011`).
"""

from __future__ import annotations

import os
import random


def keep_to_one() -> None:
    """Hold this process's main thread, and the threads it starts from now on, to one of its cores.

    A random one, so that several gateways do not meet on the first. Whoever chose the cores already (`taskset`, a
    container) is asked for one of theirs. Nothing where the system has no such call.
    """
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {random.choice(sorted(os.sched_getaffinity(0)))})
