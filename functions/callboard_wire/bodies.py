"""Every body that crosses between the daemon and the control plane.

Field names and paths are Multica's where Multica has them, so daemons and scripts written for it keep working; what we
add (`claim_id`, `fence`, `wait`, `retry_after_s`, …) is optional, and a peer that leaves it out is served by rules that
need none. Unknown fields are ignored in both directions: a newer peer must not be refused for saying more.
Times are RFC 3339 in UTC. Durations are seconds.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from callboard_wire.states import TaskStatus

MAX_BATCH_CLAIM: Final = 32
MAX_WAIT_S: Final = 20.0
"""The longest a claim may be held: an HTTP API cuts every request at 30 s."""
PREPARE_LEASE_S: Final = 45.0
RENEW_LEASE_EVERY_S: Final = 15.0
HEARTBEAT_EVERY_S: Final = 20.0
RUNTIME_FRESH_S: Final = 150.0
"""A runtime not heard of for longer is offline: a heartbeat, its write-behind and one missed beat fit below it."""
MAX_MESSAGE_BYTES: Final = 64 * 1024
MAX_TOOL_OUTPUT_BYTES: Final = 8192
MAX_PROMPT_CHARS: Final = 200_000
MAX_MESSAGES: Final = 500
MAX_NUMBER: Final = 9_999_999_999
"""Ten digits, which is what a number has in a key."""

CAPABILITIES_HEADER: Final = "X-Client-Capabilities"
"""Names, separated by commas, of what a daemon understands beyond what every daemon does."""
SKILL_BUNDLES: Final = "skill-bundles-v1"
"""It asks for the skills of a task by their hash; any other is sent them whole with the claim."""

Id = Annotated[str, StringConstraints(min_length=1, max_length=64, pattern=r"^[A-Za-z0-9][A-Za-z0-9._:-]*$")]
Name = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=100)]


class Body(BaseModel):
    """Schemas are built at first use: a function needs a few of them, and all of them cost 35 ms of a cold start. What
    does not fit is not repeated by the error: it ends in a log, and a claim's has tokens and secrets in it."""

    model_config = ConfigDict(extra="ignore", populate_by_name=True, defer_build=True, hide_input_in_errors=True)


def build_all() -> None:
    """Build every schema now: for a process with threads, where two first uses at once would meet."""
    kinds = [Body]
    while kinds:
        kind = kinds.pop()
        kind.model_rebuild()
        kinds += kind.__subclasses__()


# ── registration and liveness ────────────────────────────────────────────────


class RuntimeOffer(Body):
    """One provider a machine can run. `type` is the protocol family; `profile_id` names a custom runtime profile."""

    name: Name
    type: Annotated[str, StringConstraints(strip_whitespace=True, to_lower=True, min_length=1, max_length=40)]
    version: str = Field("", max_length=200)
    status: Literal["online", "offline"] = "online"
    profile_id: Id | None = None
    offline_reason: dict[str, Any] | None = None


class FailedProfile(Body):
    """A runtime profile that this machine cannot offer, and why, for people to read."""

    profile_id: Id
    command_name: str = Field("", max_length=200)
    reason: str = Field("", max_length=2000)


class RegisterRequest(Body):
    daemon_id: Id
    workspace_id: Id | None = None
    legacy_daemon_ids: list[str] = Field(default_factory=list, max_length=50)
    device_name: str = Field("", max_length=200)
    cli_version: str = Field("", max_length=100)
    launched_by: str = Field("", max_length=40)
    capabilities: list[str] = Field(default_factory=list, max_length=50)
    runtimes: list[RuntimeOffer] = Field(default_factory=list, max_length=100)
    failed_profiles: list[FailedProfile] = Field(default_factory=list, max_length=100)


class RegisteredRuntime(Body):
    id: str
    name: str
    provider: str
    status: str
    profile_id: str | None = None


class RegisterResponse(Body):
    """`daemon_token` (``mdt_``) is there when a person registered: shown once, to be kept 0600 by the daemon."""

    workspace_id: str
    runtimes: list[RegisteredRuntime]
    daemon_token: str | None = None
    repos: list[dict[str, Any]] = Field(default_factory=list)
    repos_version: str = ""
    settings: dict[str, Any] = Field(default_factory=dict)
    profiles_version: int = 0


class HeartbeatRequest(Body):
    """One beat covers all runtimes of the daemon; Multica's form names a single `runtime_id`."""

    runtime_id: Id | None = None
    runtime_ids: list[Id] = Field(default_factory=list, max_length=100)


class HeartbeatResponse(Body):
    """`profiles_version` changes when the workspace's runtime profiles do: the daemon asks for them then."""

    status: str = "ok"
    runtime_gone: bool = False
    gone_runtime_ids: list[str] = Field(default_factory=list)
    next_heartbeat_s: float = HEARTBEAT_EVERY_S
    profiles_version: int = 0


class DeregisterRequest(Body):
    runtime_ids: list[Id] = Field(min_length=1, max_length=100)
    offline_reasons: dict[str, dict[str, Any]] = Field(default_factory=dict)


# ── claim ────────────────────────────────────────────────────────────────────


class ClaimRequest(Body):
    """`max_tasks` 0 is a daemon without a free slot: it claims nothing. `claim_id` is made by the daemon, once a
    request, and repeated when the answer did not arrive: the same tasks come back and no others are taken."""

    daemon_id: Id | None = None
    runtime_ids: list[str] = Field(default_factory=list, max_length=200)
    max_tasks: int = Field(1, ge=0)
    wait: float = Field(0.0, ge=0.0)
    claim_id: Id | None = None


class AgentSpec(Body):
    """The agent as it is now (not as it was when the task was made). `custom_env`, and the gateway's token in
    `runtime_config`, travel only here."""

    id: str
    name: str
    instructions: str = ""
    model: str | None = None
    thinking_level: str | None = None
    service_tier: str | None = None
    custom_env: dict[str, str] = Field(default_factory=dict)
    custom_args: list[str] = Field(default_factory=list)
    mcp_config: dict[str, Any] | None = None
    runtime_config: dict[str, Any] | None = Field(None, repr=False, exclude_if=lambda config: not config)
    skills: list[dict[str, Any]] = Field(default_factory=list)
    skill_refs: list[dict[str, Any]] = Field(default_factory=list)
    disabled_runtime_skills: list[str] = Field(default_factory=list)
    max_turns: int | None = None
    max_tokens: int | None = None


class ClaimedTask(Body):
    """Everything a run needs. `auth_token` is the task's own ``mat_`` token: the only place it is ever visible.

    What `model_profile` means to the provider is in `agent` already; `model_profile_missing`: nobody knows any more.
    """

    id: str
    agent_id: str
    runtime_id: str
    workspace_id: str
    status: TaskStatus = TaskStatus.DISPATCHED
    kind: str = "direct"
    priority: int = 0
    attempt: int = 1
    max_attempts: int = 2
    created_at: datetime
    dispatched_at: datetime | None = None
    claim_id: str | None = None
    fence: int = 0
    lease_s: float = PREPARE_LEASE_S
    provider: str = ""
    prompt: str = ""
    thread_name: str = ""
    issue_id: str = ""
    chat_session_id: str = ""
    parent_task_id: str = ""
    prior_session_id: str = ""
    prior_work_dir: str = ""
    prior_session_resume_unavailable: bool = False
    workspace_context: str = ""
    repos: list[dict[str, Any]] = Field(default_factory=list)
    trigger_summary: str = ""
    timeout_s: float | None = None
    model_profile: str = ""
    model_profile_missing: bool = False
    agent: AgentSpec
    auth_token: str = Field(repr=False)


class ClaimResponse(Body):
    """`retry_after_s`: how long to pause before the next claim; 0 = at once (more may be waiting)."""

    tasks: list[ClaimedTask] = Field(default_factory=list)
    retry_after_s: float = 0.0


class SingleClaimResponse(Body):
    task: ClaimedTask | None = None
    retry_after_s: float = 0.0


# ── writes about a claimed task ──────────────────────────────────────────────


class Fenced(Body):
    """What proves that the writer still holds the task. Without both only the status guards (an older daemon)."""

    claim_id: Id | None = None
    fence: int | None = Field(None, ge=0, le=MAX_NUMBER)


class StartRequest(Fenced):
    work_dir: str = Field("", max_length=4096)


class PrepareLeaseRequest(Fenced):
    pass


class WaitLocalDirectoryRequest(Fenced):
    reason: str = Field("", max_length=500)


class SessionRequest(Fenced):
    session_id: str = Field("", max_length=512)
    work_dir: str = Field("", max_length=4096)


class TaskMessage(Body):
    """One step of a run. `seq` starts at 1 and rises by one under a fence; a repeated number changes nothing."""

    seq: int = Field(ge=1, le=MAX_NUMBER)
    type: Literal["text", "thinking", "tool_use", "tool_result", "status", "error", "log"]
    content: str = ""
    tool: str = ""
    call_id: str = ""
    parent_call_id: str = ""
    input: Any = None
    output: str = ""
    status: str = ""
    level: str = ""
    created_at: datetime | None = None


class MessagesRequest(Fenced):
    messages: list[TaskMessage] = Field(max_length=MAX_MESSAGES)


class TaskState(Body):
    """The answer to every write about a running task: whether to stop, and why."""

    status: TaskStatus
    stop: bool = False
    stop_reason: str = ""
    last_seq: int = 0
    lease_s: float | None = None


class UsageRow(Body):
    """Buckets never overlap; `input_tokens` are the uncached ones. A cost tick is 1e-10 USD; None = not stated."""

    provider: str = ""
    model: str = ""
    input_tokens: int = Field(0, ge=0)
    output_tokens: int = Field(0, ge=0)
    cache_read_tokens: int = Field(0, ge=0)
    cache_write_tokens: int = Field(0, ge=0)
    cost_usd_ticks: int | None = Field(None, ge=0)


class UsageRequest(Fenced):
    usage: list[UsageRow] = Field(max_length=100)


class Ending(Fenced):
    session_id: str = Field("", max_length=512)
    work_dir: str = Field("", max_length=4096)
    durable_work_dir: str = Field("", max_length=4096)
    branch_name: str = Field("", max_length=500)
    retired_session_id: str = Field("", max_length=512)
    session_rollout_missing: bool = False
    duration_ms: int | None = Field(None, ge=0, le=1000 * MAX_NUMBER)


class CompleteRequest(Ending):
    output: str = ""


class FailRequest(Ending):
    error: str = ""
    failure_reason: str = ""
    output: str = ""


class CancelAckRequest(Fenced):
    branch_name: str = Field("", max_length=500)
    durable_work_dir: str = Field("", max_length=4096)
    work_dir: str = Field("", max_length=4096)
    session_id: str = Field("", max_length=512)
    error_message: str = ""
    failure_reason: str = ""


class RecoverOrphansRequest(Body):
    """`keep`: task ids this daemon still runs (it was restarted without losing them)."""

    keep: list[str] = Field(default_factory=list, max_length=1000)


class RecoverOrphansResponse(Body):
    orphaned: int = 0
    retried: int = 0


# ── errors ───────────────────────────────────────────────────────────────────


class ErrorBody(Body):
    """The one shape of every answer that is not 2xx. `error` is the code to decide by; `message` is for people."""

    error: str
    message: str
    request_id: str = ""
    details: dict[str, Any] = Field(default_factory=dict)
