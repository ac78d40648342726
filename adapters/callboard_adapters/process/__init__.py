"""Starting, reading, writing and ending processes. Knows nothing of providers.

For the daemon: `reap_run(run_id)` ends whatever a run left behind, also after this process was killed and restarted.
"""

from callboard_adapters.process.environment import RUN_MARKER
from callboard_adapters.process.host import reap_run

__all__ = ["RUN_MARKER", "reap_run"]
