"""Hearing of a process's exit, for both kinds of child."""

from __future__ import annotations

import asyncio
import subprocess
import threading
from collections.abc import Callable


def tell_exit(process: subprocess.Popen[bytes], seen: Callable[[], None]) -> None:
    """Call `seen` on the running loop once `process` has exited; a thread waits for it."""
    loop = asyncio.get_running_loop()

    def wait() -> None:
        process.wait()
        try:
            loop.call_soon_threadsafe(seen)
        except RuntimeError:
            return  # the loop has gone; nobody is left to hear of it

    threading.Thread(target=wait, name=f"wait-{process.pid}", daemon=True).start()


async def exits(exited: asyncio.Event, timeout: float) -> bool:
    """Whether it is set within `timeout` seconds."""
    try:
        await asyncio.wait_for(exited.wait(), timeout)
    except TimeoutError:
        return False
    return True
