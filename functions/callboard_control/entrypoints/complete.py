"""complete: how a run ended."""

from __future__ import annotations

from callboard_control.entrypoints._http import as_handler, daemon, daemon_of, new_app
from callboard_control.entrypoints._json import read_report
from callboard_control.tasks import finish
from callboard_wire.bodies import (
    CancelAckRequest,
    CompleteRequest,
    FailRequest,
    RecoverOrphansRequest,
    RecoverOrphansResponse,
    TaskState,
)

app = new_app(read_report)
handler = as_handler(app)


@app.post("/api/daemon/tasks/<task_id>/complete")
def complete(task_id: str, request: CompleteRequest) -> TaskState:
    return finish.complete(daemon(app, task_id=task_id), task_id, request)


@app.post("/api/daemon/tasks/<task_id>/fail")
def fail(task_id: str, request: FailRequest) -> TaskState:
    return finish.fail(daemon(app, task_id=task_id), task_id, request)


@app.post("/api/daemon/tasks/<task_id>/cancel-ack")
def cancel_ack(task_id: str, request: CancelAckRequest) -> TaskState:
    return finish.acknowledge_cancel(daemon(app, task_id=task_id), task_id, request)


@app.post("/api/daemon/runtimes/<runtime_id>/recover-orphans")
def recover_orphans(runtime_id: str, request: RecoverOrphansRequest) -> RecoverOrphansResponse:
    return finish.recover_orphans(daemon_of(app, runtime_id), runtime_id, request.keep)
