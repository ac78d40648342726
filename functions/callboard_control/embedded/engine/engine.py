"""The engine: names of operations → functions, with the injector asked in between."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from typing import Any

from callboard_control.embedded.engine.core import Core
from callboard_control.embedded.engine.errors import EngineError, LostMessage, transaction_canceled
from callboard_control.embedded.engine.faults import Fault, Injector
from callboard_control.embedded.engine.operations import batch, items, query, tables, transact

_Operation = Callable[..., dict[str, Any]]

OPERATIONS: dict[str, _Operation] = {
    "BatchGetItem": batch.batch_get_item,
    "BatchWriteItem": batch.batch_write_item,
    "CreateTable": tables.create_table,
    "DeleteItem": items.delete_item,
    "DeleteTable": tables.delete_table,
    "DescribeTable": tables.describe_table,
    "DescribeTimeToLive": tables.describe_time_to_live,
    "GetItem": items.get_item,
    "ListTables": tables.list_tables,
    "PutItem": items.put_item,
    "Query": query.query,
    "Scan": query.scan,
    "TransactGetItems": transact.transact_get_items,
    "TransactWriteItems": transact.transact_write_items,
    "UpdateItem": items.update_item,
    "UpdateTimeToLive": tables.update_time_to_live,
}
_BATCHES = ("BatchGetItem", "BatchWriteItem")
_MESSAGES = {
    Fault.THROUGHPUT: (
        "The level of configured provisioned throughput for the table was exceeded. "
        "Consider increasing your provisioning level with the UpdateTable API."
    ),
    Fault.THROTTLING: "Rate of requests exceeds the allowed throughput.",
    Fault.CONFLICT: "Transaction is ongoing for the item",
    Fault.UNAVAILABLE: "Internal server error",
}


class Engine:
    """DynamoDB's API on one SQLite file. Threads may share it; other processes may open the same file.

    `path` is the file, made if missing, or ":memory:". `clock` gives seconds since the epoch, for TTL, request tokens
    and index lag. `synchronous` is SQLite's: FULL survives power loss, NORMAL and OFF survive only the death of the
    process. Raises StorageError when the file cannot be used.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        clock: Callable[[], float] = time.time,
        faults: Injector | None = None,
        synchronous: str = "FULL",
    ) -> None:
        self._core = Core(os.fspath(path), clock=clock, faults=faults, synchronous=synchronous)

    @property
    def injects_faults(self) -> bool:
        """Whether an injector was given."""
        return self._core.faults is not None

    def close(self) -> None:
        """Close the file; requests after this fail with InternalServerError."""
        self._core.storage.close()

    def __enter__(self) -> Engine:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def execute(self, operation: str, request: Mapping[str, Any]) -> dict[str, Any]:
        """Answer one request. `request` and the answer have the shapes of DynamoDB's JSON protocol (binary as base64).

        Raises EngineError for every error answer, and LostMessage when an injected fault leaves the caller without one.
        """
        run = OPERATIONS.get(operation)
        if run is None:
            raise EngineError("UnknownOperationException", f"{operation} is not supported by the embedded engine")
        faults = self._core.faults
        if faults is None:
            return run(self._core, request)
        return self._with_fault(run, operation, request, faults.fault(operation, request))

    def sweep_expired(self, limit: int = 1000) -> int:
        """Delete up to `limit` items whose time to live has passed; return how many."""
        return tables.sweep_expired(self._core, limit)

    def _with_fault(
        self, run: _Operation, operation: str, request: Mapping[str, Any], fault: Fault | None
    ) -> dict[str, Any]:
        if fault is Fault.LOST_REQUEST:
            raise LostMessage("request")
        if fault is Fault.CONFLICT and operation.startswith("Transact"):
            reasons = [{"Code": "None"} for _ in request["TransactItems"]]
            reasons[0] = {"Code": "TransactionConflict", "Message": _MESSAGES[fault]}
            raise transaction_canceled(reasons)
        if fault in _MESSAGES:
            raise EngineError(fault.value, _MESSAGES[fault], status=500 if fault is Fault.UNAVAILABLE else 400)
        if fault is Fault.UNPROCESSED and operation in _BATCHES:
            return run(self._core, request, unprocessed=True)
        answer = run(self._core, request)
        if fault is Fault.LOST_RESPONSE:
            raise LostMessage("response")
        return answer
