"""`python -m callboard_daemon` is `callboard`."""

from __future__ import annotations

from callboard_daemon.cli.main import main

if __name__ == "__main__":
    main()
