"""Where a gateway's log goes: JSON lines on stderr. What is on stdout is said to a person."""

from __future__ import annotations

import logging
import sys


def to_stderr() -> None:
    """For the process that serves: the functions' log and uvicorn's own. Powertools writes to stdout, which is Lambda's
    log and nobody's else."""
    for handler in logging.getLogger("callboard").handlers:
        if isinstance(handler, logging.StreamHandler):
            handler.setStream(sys.stderr)
            logging.getLogger("uvicorn").addHandler(handler)
