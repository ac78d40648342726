"""A task's private place on this machine: folders, brief, environment. No network, no asyncio: `prepare` is called in a
thread, and everything here can be tried with a temporary folder alone."""
