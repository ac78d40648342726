"""report: what a run says on its way."""

from __future__ import annotations

from callboard_control.entrypoints._http import as_handler, daemon, daemon_of, new_app
from callboard_control.entrypoints._json import read_report
from callboard_control.tasks import guard, lease
from callboard_control.tasks import report as reporting
from callboard_wire.bodies import (
    Fenced,
    MessagesRequest,
    PrepareLeaseRequest,
    SessionRequest,
    TaskState,
    UsageRequest,
    WaitLocalDirectoryRequest,
)

app = new_app(read_report)
handler = as_handler(app)


@app.post("/api/daemon/tasks/<task_id>/messages")
def messages(task_id: str, request: MessagesRequest) -> TaskState:
    return reporting.messages(daemon(app, task_id=task_id), task_id, request)


@app.post("/api/daemon/tasks/<task_id>/usage")
def usage(task_id: str, request: UsageRequest) -> TaskState:
    return reporting.usage(daemon(app, task_id=task_id), task_id, request)


@app.post("/api/daemon/tasks/<task_id>/session")
def session(task_id: str, request: SessionRequest) -> TaskState:
    return reporting.session(daemon(app, task_id=task_id), task_id, request)


@app.get("/api/daemon/tasks/<task_id>/status")
def status(task_id: str) -> TaskState:
    return guard.state(guard.held_by(daemon(app, task_id=task_id), task_id, Fenced()))


@app.post("/api/daemon/runtimes/<runtime_id>/tasks/<task_id>/prepare-lease")
def prepare_lease(runtime_id: str, task_id: str, request: PrepareLeaseRequest) -> TaskState:
    return lease.renew(daemon_of(app, runtime_id), task_id, request)


@app.post("/api/daemon/tasks/<task_id>/wait-local-directory")
def wait_local_directory(task_id: str, request: WaitLocalDirectoryRequest) -> TaskState:
    return lease.wait_for_directory(daemon(app, task_id=task_id), task_id, request, request.reason)
