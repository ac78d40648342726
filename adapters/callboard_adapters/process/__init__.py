"""Starting, reading, writing and ending processes. Knows nothing of providers.

For the daemon: `reap_run(run_id)` ends whatever a run left behind, also after this process was killed and restarted.
"""

import sys

from callboard_adapters.process.environment import RUN_MARKER
from callboard_adapters.process.tree import reap_run

__all__ = ["RUN_MARKER", "reap_run"]

if sys.platform == "win32":
    # Sessions, process groups and pipes are POSIX here. Ending only the CLI itself would leave its tools running.
    raise ImportError(
        "coding agents are started on Linux and macOS only, on Windows inside WSL 2: "
        "docs/decisions/child-processes.md says why"
    )
