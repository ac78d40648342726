"""Bodies of the people's and agents' side of the API: tasks, agents, runtimes, tokens, workspaces."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any, Generic, Literal, TypeVar

from pydantic import AfterValidator, AwareDatetime, Field

from callboard_wire.bodies import MAX_NUMBER, MAX_PROMPT_CHARS, Body, Id, Name, UsageRow
from callboard_wire.states import TaskStatus

T = TypeVar("T")


def _in_utc(moment: datetime) -> datetime:
    """The end of 9999 is in some zones, and once it is rounded, the year 10000 in UTC. Stored, it broke every list of
    tasks that held it."""
    if not 1 < moment.year < 9999:
        raise ValueError("it is outside the years 2 to 9998")
    return moment.astimezone(UTC)


Moment = Annotated[AwareDatetime, AfterValidator(_in_utc)]


class EnqueueRequest(Body):
    """`agent` is an agent's id or name. The same `idempotency_key` with the same body is the same task, for a day and
    more; with another body it is refused (409 `idempotency_mismatch`). Keys are each agent's own: for another agent the
    same key is another task. `timeout_s` are seconds."""

    agent: str = Field(min_length=1, max_length=100)
    prompt: str = Field(min_length=1, max_length=MAX_PROMPT_CHARS)
    idempotency_key: str | None = Field(None, min_length=1, max_length=255)
    priority: int = Field(0, ge=0, le=4)
    thread_name: str = Field("", max_length=200)
    issue_id: Id | None = None
    chat_session_id: Id | None = None
    max_attempts: int = Field(2, ge=1, le=10)
    fire_at: Moment | None = None
    resume_task_id: Id | None = None
    timeout_s: float | None = Field(None, ge=0.001, le=MAX_NUMBER)
    model_profile: str | None = Field(None, min_length=1, max_length=64)


class MoveView(Body):
    """One move of a task: `at` by the server's clock, `by` as ``kind:id`` of the actor, `reason` where it ended the
    task in failure."""

    move: str
    start: str = ""
    end: str
    at: datetime
    by: str = ""
    fence: int = 0
    reason: str = ""


class WaitReason(Body):
    """Why a task is not running yet: a code to decide by, a sentence to read, and the things concerned."""

    code: str
    message: str
    details: dict[str, Any] = Field(default_factory=dict)


class TaskView(Body):
    id: str
    workspace_id: str
    agent_id: str
    agent_name: str = ""
    runtime_id: str = ""
    status: TaskStatus
    kind: str = "direct"
    priority: int = 0
    attempt: int = 1
    max_attempts: int = 2
    prompt: str = ""
    thread_name: str = ""
    issue_id: str = ""
    chat_session_id: str = ""
    created_at: datetime
    dispatched_at: datetime | None = None
    started_at: datetime | None = None
    completed_at: datetime | None = None
    fire_at: datetime | None = None
    output: str = ""
    error: str = ""
    failure_reason: str = ""
    session_id: str = ""
    work_dir: str = ""
    branch_name: str = ""
    wait_reason: str = ""
    model_profile: str = ""
    parent_task_id: str = ""
    retry_of_task_id: str = ""
    rerun_of_task_id: str = ""
    retried_by_task_id: str = ""
    usage: list[UsageRow] = Field(default_factory=list)
    message_count: int = 0
    duration_ms: int | None = None
    waiting: WaitReason | None = None
    moves: list[MoveView] = Field(default_factory=list)


class RerunRequest(Body):
    """`task_id` names the run to repeat where the path names an issue. The same `idempotency_key` for the same run is
    the same new task; for another run it is refused (409 `idempotency_mismatch`)."""

    task_id: Id | None = None
    idempotency_key: str | None = Field(None, min_length=1, max_length=255)


class CancelTasksRequest(Body):
    """Several tasks at once; `only_queued` leaves those that have been claimed meanwhile."""

    task_ids: list[Id] = Field(min_length=1, max_length=100)
    only_queued: bool = False


class CancelledTasks(Body):
    cancelled: int = 0
    task_ids: list[str] = Field(default_factory=list)


class QueuedTask(Body):
    """A place in a runtime's queue; `position` 1 is claimed next if nothing stands in its way."""

    task_id: str
    runtime_id: str
    agent_id: str
    position: int
    priority: int = 0
    created_ms: int
    prompt: str = ""


class OffenceView(Body):
    rule: str
    thing: str
    detail: str = ""


class DoctorReport(Body):
    """One page of the cross-check; go on with `next_cursor` until there is none."""

    checked: int
    offences: list[OffenceView] = Field(default_factory=list)
    next_cursor: str | None = None


class RuntimeView(Body):
    """`name` is the machine's word for it, `custom_name` a person's. `visibility` says who may put agents on it: its
    owner (``private``) or every member (``public``). `max_concurrent_tasks` null: the machine's own slots decide."""

    id: str
    workspace_id: str
    name: str
    custom_name: str = ""
    provider: str
    profile_id: str = ""
    visibility: str = "private"
    max_concurrent_tasks: int | None = None
    version: str = ""
    status: str
    daemon_id: str = ""
    device_name: str = ""
    owner_id: str = ""
    last_seen_at: datetime | None = None
    offline_reason: dict[str, Any] | None = None


class Page(Body, Generic[T]):
    """One page of a list; `next_cursor` is opaque and absent on the last page."""

    items: list[T]
    next_cursor: str | None = None


class BootstrapRequest(Body):
    """First run: makes the first person, their workspace and a token. `secret` proves access to the server's folder."""

    secret: str = Field(min_length=1, max_length=200)
    name: Name = "me"
    workspace: Name = "home"


class TokenResponse(Body):
    """`token` is shown once."""

    id: str
    token: str
    user_id: str
    workspace_id: str
    expires_at: datetime | None = None


class CreateTokenRequest(Body):
    name: Name
    expires_in_days: int | None = Field(None, ge=1, le=3650)


class TokenView(Body):
    id: str
    name: str
    created_at: datetime
    expires_at: datetime | None = None
    last_used_at: datetime | None = None
    revoked: bool = False


class RenewedToken(Body):
    renewed: bool
    expires_at: datetime | None = None


class CreateWorkspaceRequest(Body):
    name: Name


class UpdateWorkspaceRequest(Body):
    """Absent fields stay; `context` is text every agent of the workspace is given."""

    name: Name = ""
    context: str = Field("", max_length=50_000)
    repos: list[dict[str, Any]] = Field(default_factory=list, max_length=200)
    settings: dict[str, Any] = Field(default_factory=dict)


class WorkspaceView(Body):
    id: str
    name: str
    context: str = ""
    repos: list[dict[str, Any]] = Field(default_factory=list)
    settings: dict[str, Any] = Field(default_factory=dict)
    role: str
    created_at: datetime


Role = Literal["owner", "admin", "member"]


class MemberView(Body):
    user_id: str
    name: str = ""
    role: str
    since: datetime


class ChangeRoleRequest(Body):
    role: Role


class CreateInvitationRequest(Body):
    role: Literal["admin", "member"] = "member"
    max_uses: int = Field(1, ge=1, le=100)


class InvitationView(Body):
    """`code` is shown once, when it is made; whoever has it may join until it is used up, revoked or over."""

    id: str
    code: str = ""
    role: str
    uses_left: int
    expires_at: datetime
    created_by: str = ""
    created_at: datetime


class AcceptInvitationRequest(Body):
    """With a `name` a new person is made and logged in; without one the caller joins with their own token."""

    code: str = Field(min_length=1, max_length=100)
    name: Name | None = None


class AcceptedInvitation(Body):
    workspace_id: str
    role: str
    token: str = ""
    user_id: str = ""


class AuditEntry(Body):
    at_ms: int
    actor: str
    token_id: str = ""
    action: str
    thing: str
    details: dict[str, Any] = Field(default_factory=dict)


class MeView(Body):
    """`token_expires_at`: when the token this was asked with ends; None is never, or not for a person to renew."""

    actor: str
    user_id: str = ""
    name: str = ""
    workspace_id: str
    workspace_name: str = ""
    role: str = ""
    agent_id: str = ""
    task_id: str = ""
    daemon_id: str = ""
    token_expires_at: datetime | None = None
