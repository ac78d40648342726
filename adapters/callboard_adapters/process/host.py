"""What the driver needs of the operating system, chosen once: nothing above this module asks which one it is.

`Child` is one process with its pipes, `Family` it and everything that came of it. `run_processes` and `reap_run` find
the processes of a run from outside, by its mark.
"""

from __future__ import annotations

import sys

if sys.platform == "win32":
    from callboard_adapters.process.windows.child import Child
    from callboard_adapters.process.windows.family import Family, reap_run, run_processes
else:
    from callboard_adapters.process.child import Child
    from callboard_adapters.process.sweep import Family
    from callboard_adapters.process.tree import reap_run, run_processes

__all__ = ["Child", "Family", "reap_run", "run_processes"]
