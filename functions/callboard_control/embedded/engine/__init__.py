"""The embedded engine: the part of DynamoDB's API that the store uses, on one SQLite file, without a socket.

    engine = Engine("callboard.db")       # or ":memory:"; clock=, faults=, synchronous=
    dynamodb = client(engine)             # a boto3-style client that needs nothing of the machine
    attach(session_or_client, engine)     # any boto3 or botocore session or client
    attach_pynamodb(engine, TaskModel)    # PynamoDB models
    attach_connection(engine, connection) # a PynamoDB connection, as a TransactWrite takes it
    engine.execute("GetItem", {...})      # below botocore: plain JSON shapes, raises EngineError
    engine.sweep_expired()                # what DynamoDB's TTL does by itself
    engine.close()

What is not implemented is refused by name (ValidationException or UnknownOperationException), never approximated.
"""

from __future__ import annotations

from callboard_control.embedded.engine.engine import OPERATIONS, Engine
from callboard_control.embedded.engine.errors import EngineError, LostMessage, StorageError
from callboard_control.embedded.engine.faults import Fault, Injector, Script, Seeded
from callboard_control.embedded.engine.hook import attach, attach_connection, attach_pynamodb, client

__all__ = [
    "OPERATIONS",
    "Engine",
    "EngineError",
    "Fault",
    "Injector",
    "LostMessage",
    "Script",
    "Seeded",
    "StorageError",
    "attach",
    "attach_connection",
    "attach_pynamodb",
    "client",
]
