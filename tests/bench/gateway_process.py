"""A gateway in a process of its own, as `callboard up` runs it: the benchmarks' server."""

from __future__ import annotations

import contextlib
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

PROGRAM = """
import sys
from pathlib import Path
from callboard_control.embedded.server import serve

serve(Path(sys.argv[1]), port=0)
"""


@dataclass(frozen=True)
class Served:
    url: str
    secret: str
    pid: int


@contextlib.contextmanager
def gateway() -> Iterator[Served]:
    """A fresh control plane on a folder that is removed afterwards."""
    with TemporaryDirectory(prefix="callboard-bench-") as folder:
        data = Path(folder) / "data"
        process = subprocess.Popen([sys.executable, "-c", PROGRAM, str(data)], stdout=subprocess.PIPE, text=True)
        try:
            assert process.stdout
            found = re.search(r"http://[^ ]+", process.stdout.readline())
            assert found, "the gateway did not start"
            yield Served(found.group(), (data / "bootstrap.secret").read_text().strip(), process.pid)
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(30)
            assert process.stdout
            process.stdout.close()
