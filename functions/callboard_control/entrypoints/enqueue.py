"""enqueue: tasks are made, looked at and cancelled."""

from __future__ import annotations

from typing import Annotated

from aws_lambda_powertools.event_handler import Response
from aws_lambda_powertools.event_handler.openapi.params import Query
from aws_lambda_powertools.event_handler.openapi.types import OpenAPIResponse

from callboard_control.actor import person, reader
from callboard_control.entrypoints._http import as_handler, caller, new_app
from callboard_control.errors import Forbidden, InvalidRequest
from callboard_control.tasks import board, overview
from callboard_wire.api import (
    CancelledTasks,
    CancelTasksRequest,
    DoctorReport,
    EnqueueRequest,
    Page,
    QueuedTask,
    RerunRequest,
    TaskView,
)
from callboard_wire.bodies import TaskMessage
from callboard_wire.states import TaskStatus

app = new_app()
handler = as_handler(app)


def _task(said: str) -> OpenAPIResponse:
    return {"description": said, "content": {"application/json": {"model": TaskView}}}


@app.post("/api/tasks", responses={201: _task("Made."), 200: _task("There already: asked for twice, or joined.")})
def enqueue(request: EnqueueRequest) -> Response[TaskView]:
    outcome = board.enqueue(person(caller(app)), request)
    return Response(
        status_code=201 if outcome.created else 200,
        content_type="application/json",
        body=outcome.view,
        headers={"X-Callboard-Outcome": outcome.outcome},
    )


@app.get("/api/tasks")
def list_tasks(
    cursor: Annotated[str | None, Query(max_length=2000)] = None,
    limit: Annotated[int, Query(ge=1, le=100)] = 50,
    status: Annotated[TaskStatus | None, Query()] = None,
    agent: Annotated[str | None, Query(max_length=100)] = None,
) -> Page[TaskView]:
    return board.list_tasks(reader(caller(app)), cursor, limit, status, agent)


@app.get("/api/tasks/<task_id>")
def get_task(task_id: str) -> TaskView:
    return board.get(reader(caller(app)), task_id)


@app.get("/api/tasks/<task_id>/messages")
def get_messages(
    task_id: str,
    since: Annotated[int, Query(ge=0)] = 0,
    limit: Annotated[int, Query(ge=1, le=1000)] = 500,
) -> Page[TaskMessage]:
    return board.messages(reader(caller(app)), task_id, since, limit)


@app.post("/api/tasks/cancel")
def cancel_tasks(request: CancelTasksRequest) -> CancelledTasks:
    return board.cancel_many(person(caller(app)), request.task_ids, only_queued=request.only_queued)


@app.post("/api/agents/<agent_id>/cancel-tasks")
def cancel_tasks_of_agent(agent_id: str) -> CancelledTasks:
    return board.cancel_all_of(person(caller(app)), agent_id)


@app.post("/api/tasks/<task_id>/rerun")
def rerun(task_id: str, request: RerunRequest | None = None) -> TaskView:
    return board.rerun(person(caller(app)), task_id, key=request.idempotency_key if request else None)


@app.post("/api/issues/<issue_id>/rerun")
def rerun_of_issue(issue_id: str, request: RerunRequest) -> TaskView:
    if request.task_id is None:
        raise InvalidRequest("Name the task to run again: task_id.", code="task_id_required")
    return board.rerun(person(caller(app)), request.task_id, issue_id, request.idempotency_key)


@app.get("/api/queue")
def queue(
    runtime_id: Annotated[str | None, Query(max_length=64)] = None,
    agent_id: Annotated[str | None, Query(max_length=64)] = None,
    cursor: Annotated[str | None, Query(max_length=64)] = None,
) -> Page[QueuedTask]:
    return overview.queue(reader(caller(app)), runtime_id, agent_id, cursor)


@app.get("/api/doctor")
def doctor(cursor: Annotated[str | None, Query(max_length=2000)] = None) -> DoctorReport:
    admin = person(caller(app))
    if not admin.is_admin:
        raise Forbidden("Only an owner or admin may check the whole workspace.")
    return overview.doctor(admin.workspace_id, cursor)


@app.post("/api/tasks/<task_id>/cancel")
def cancel(task_id: str) -> TaskView:
    return board.cancel(person(caller(app)), task_id)
