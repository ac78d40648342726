"""start: the workdir exists; the agent is about to be launched."""

from __future__ import annotations

from callboard_control.entrypoints._http import as_handler, daemon, new_app
from callboard_control.tasks import start as starting
from callboard_wire.bodies import StartRequest, TaskState

app = new_app()
handler = as_handler(app)


@app.post("/api/daemon/tasks/<task_id>/start")
def start(task_id: str, request: StartRequest) -> TaskState:
    return starting.start(daemon(app, task_id=task_id), task_id, request)
