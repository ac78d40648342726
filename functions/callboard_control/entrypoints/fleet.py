"""fleet: machines register, stay alive and leave; people see what can run."""

from __future__ import annotations

from typing import Annotated

from aws_lambda_powertools.event_handler.openapi.params import Query

from callboard_control.actor import Daemon, Person, TaskAgent, person, reader
from callboard_control.entrypoints._http import as_handler, caller, daemon, new_app
from callboard_control.errors import Forbidden, NotFound
from callboard_control.fleet import machines, profiles, registration, removal, runtimes, usage
from callboard_control.identity.authenticate import membership
from callboard_wire.api import Page, RuntimeView
from callboard_wire.bodies import (
    DeregisterRequest,
    HeartbeatRequest,
    HeartbeatResponse,
    RegisterRequest,
    RegisterResponse,
)
from callboard_wire.runtimes import (
    CreateProfileRequest,
    ProfileView,
    RuntimeActivity,
    RuntimeUsage,
    UnbindAndDeleteRequest,
    UpdateProfileRequest,
    UpdateRuntimeRequest,
)

Cursor = Annotated[str | None, Query(max_length=2000)]
Days = Annotated[int, Query(ge=1, le=366)]

app = new_app()
handler = as_handler(app)


@app.post("/api/daemon/register")
def register(request: RegisterRequest) -> RegisterResponse:
    return registration.register(caller(app), request)


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


@app.post("/api/runtimes/<runtime_id>/unbind-agents-and-delete")
def unbind_agents_and_delete(runtime_id: str, request: UnbindAndDeleteRequest) -> dict[str, bool]:
    removal.unbind_and_delete(person(caller(app)), runtime_id, request.expected_active_agent_ids)
    return {"deleted": True}


@app.get("/api/runtimes/<runtime_id>/usage")
def get_usage(runtime_id: str, days: Days = 30, cursor: Cursor = None) -> Page[RuntimeUsage]:
    return usage.by_day(reader(caller(app)).workspace_id, runtime_id, days, cursor)


@app.get("/api/runtimes/<runtime_id>/activity")
def get_activity(runtime_id: str, days: Days = 7, cursor: Cursor = None) -> Page[RuntimeActivity]:
    return usage.by_hour(reader(caller(app)).workspace_id, runtime_id, days, cursor)


# ── runtime profiles ─────────────────────────────────────────────────────────


def _member_of(workspace_id: str) -> Person:
    """The caller as a member of the workspace in the path, which may be another of theirs than the header's."""
    who = person(caller(app))
    return who if who.workspace_id == workspace_id else membership(who.user_id, workspace_id, who.token_id)


@app.get("/api/daemon/workspaces/<workspace_id>/runtime-profiles")
def profiles_for_machine(workspace_id: str) -> Page[ProfileView]:
    who = caller(app)
    if isinstance(who, TaskAgent):
        raise Forbidden("A task's token is not a daemon's.", code="daemon_only")
    if isinstance(who, Daemon) and who.workspace_id != workspace_id:
        raise NotFound.of("workspace", workspace_id)
    return profiles.for_machine(who if isinstance(who, Daemon) else _member_of(workspace_id))


@app.get("/api/workspaces/<workspace_id>/runtime-profiles")
def list_profiles(workspace_id: str) -> Page[ProfileView]:
    return profiles.list_profiles(_reader_of(workspace_id))


@app.post("/api/workspaces/<workspace_id>/runtime-profiles")
def create_profile(workspace_id: str, request: CreateProfileRequest) -> ProfileView:
    return profiles.create(_member_of(workspace_id), request)


@app.get("/api/workspaces/<workspace_id>/runtime-profiles/<profile_id>")
def get_profile(workspace_id: str, profile_id: str) -> ProfileView:
    return profiles.get(_reader_of(workspace_id), profile_id)


@app.patch("/api/workspaces/<workspace_id>/runtime-profiles/<profile_id>")
def update_profile(workspace_id: str, profile_id: str, request: UpdateProfileRequest) -> ProfileView:
    return profiles.update(_member_of(workspace_id), profile_id, request)


@app.put("/api/workspaces/<workspace_id>/runtime-profiles/<profile_id>")
def put_profile(workspace_id: str, profile_id: str, request: UpdateProfileRequest) -> ProfileView:
    return update_profile(workspace_id, profile_id, request)


@app.delete("/api/workspaces/<workspace_id>/runtime-profiles/<profile_id>")
def delete_profile(workspace_id: str, profile_id: str) -> dict[str, bool]:
    profiles.delete(_member_of(workspace_id), profile_id)
    return {"deleted": True}


def _reader_of(workspace_id: str) -> str:
    """The workspace of the path, if the caller may look around there."""
    who = reader(caller(app))
    if isinstance(who, Person):
        return _member_of(workspace_id).workspace_id
    if who.workspace_id != workspace_id:
        raise NotFound.of("workspace", workspace_id)
    return workspace_id
