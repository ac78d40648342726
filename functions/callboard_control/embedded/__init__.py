"""The control plane on one machine: the same handlers and store code as on AWS, behind a gateway and on an SQLite file.

`server.serve` is ``callboard up``; `server.running_gateway` is the same in a thread, for tests and the demo.
"""
