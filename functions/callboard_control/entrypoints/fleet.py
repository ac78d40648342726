"""fleet: machines register, stay alive and leave; people see what can run."""

from __future__ import annotations

from typing import Annotated

from aws_lambda_powertools.event_handler.openapi.params import Query

from callboard_control.actor import person, reader
from callboard_control.entrypoints._http import as_handler, caller, daemon, new_app
from callboard_control.fleet import machines, removal, runtimes, usage
from callboard_wire.api import Page, RuntimeView
from callboard_wire.bodies import (
    DeregisterRequest,
    HeartbeatRequest,
    HeartbeatResponse,
    RegisterRequest,
    RegisterResponse,
)
from callboard_wire.runtimes import RuntimeActivity, RuntimeUsage, UpdateRuntimeRequest

Cursor = Annotated[str | None, Query(max_length=2000)]
Days = Annotated[int, Query(ge=1, le=366)]

app = new_app()
handler = as_handler(app)


@app.post("/api/daemon/register")
def register(request: RegisterRequest) -> RegisterResponse:
    return machines.register(caller(app), request)


@app.post("/api/daemon/heartbeat")
def heartbeat(request: HeartbeatRequest) -> HeartbeatResponse:
    named = request.runtime_id or (request.runtime_ids[0] if request.runtime_ids else None)
    return machines.heartbeat(daemon(app, runtime_id=named), request)


@app.post("/api/daemon/deregister")
def deregister(request: DeregisterRequest) -> dict[str, str]:
    machines.deregister(machines.daemon_for(caller(app), runtime_id=request.runtime_ids[0]), request)
    return {"status": "ok"}


@app.get("/api/runtimes")
def list_runtimes(cursor: Cursor = None, limit: Annotated[int, Query(ge=1, le=100)] = 50) -> Page[RuntimeView]:
    return runtimes.list_runtimes(reader(caller(app)).workspace_id, cursor, limit)


@app.get("/api/runtimes/<runtime_id>")
def get_runtime(runtime_id: str) -> RuntimeView:
    return runtimes.get(reader(caller(app)).workspace_id, runtime_id)


@app.patch("/api/runtimes/<runtime_id>")
def update_runtime(runtime_id: str, request: UpdateRuntimeRequest) -> RuntimeView:
    return runtimes.update(person(caller(app)), runtime_id, request)


@app.delete("/api/runtimes/<runtime_id>")
def delete_runtime(runtime_id: str) -> dict[str, bool]:
    removal.delete(person(caller(app)), runtime_id)
    return {"deleted": True}


@app.get("/api/runtimes/<runtime_id>/usage")
def get_usage(runtime_id: str, days: Days = 30, cursor: Cursor = None) -> Page[RuntimeUsage]:
    return usage.by_day(reader(caller(app)).workspace_id, runtime_id, days, cursor)


@app.get("/api/runtimes/<runtime_id>/activity")
def get_activity(runtime_id: str, days: Days = 7, cursor: Cursor = None) -> Page[RuntimeActivity]:
    return usage.by_hour(reader(caller(app)).workspace_id, runtime_id, days, cursor)
