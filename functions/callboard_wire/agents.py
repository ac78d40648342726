"""Bodies about agents: their configuration, who may use them, whether they are ready, and model profiles."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import Field, StringConstraints

from callboard_wire.bodies import Body, Id, Name
from callboard_wire.runtime_config import RuntimeConfig
from callboard_wire.skills import MAX_SKILLS

MAX_ARGS = 1000
ProfileKey = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9_-]{0,39}$")]
Arg = Annotated[str, StringConstraints(max_length=8192)]
PermissionMode = Literal["private", "public_to"]
LegacyVisibility = Literal["private", "workspace"]


class InvocationTarget(Body):
    """Who is invited: every member of the workspace, or the member `target_id`."""

    target_type: Literal["workspace", "member"]
    target_id: str = Field("", max_length=64)


class CreateAgentRequest(Body):
    """`permission_mode` decides; without it the older `visibility` does (`workspace` is `public_to` everybody).
    `skill_ids` are skills of the workspace, in the order wanted. `custom_env` is known here only to be refused: it has
    its own endpoint."""

    name: Name
    runtime_id: Id | None = None
    provider: str | None = Field(None, max_length=40)
    description: str = Field("", max_length=255)
    instructions: str = Field("", max_length=100_000)
    model: str | None = Field(None, max_length=200)
    thinking_level: str | None = Field(None, max_length=64)
    service_tier: str | None = Field(None, max_length=64)
    model_profile: str | None = Field(None, max_length=64)
    custom_args: list[Arg] = Field(default_factory=list, max_length=MAX_ARGS)
    mcp_config: dict[str, Any] | None = None
    runtime_config: RuntimeConfig | None = None
    max_concurrent_tasks: int | None = Field(None, ge=1, le=50)
    max_turns: int | None = Field(None, ge=1, le=10_000)
    permission_mode: PermissionMode | None = None
    visibility: LegacyVisibility | None = None
    invocation_targets: list[InvocationTarget] | None = Field(None, max_length=200)
    skill_ids: list[Id] = Field(default_factory=list, max_length=MAX_SKILLS)
    custom_env: Any = None


class UpdateAgentRequest(Body):
    """Fields that are absent stay; null clears, and so does an empty text. ``***`` inside `mcp_config` keeps what is
    stored there, and so does ``***`` as the token in `runtime_config`. `custom_env` is known here only to be refused:
    it has its own endpoint."""

    name: Name | None = None
    runtime_id: Id | None = None
    description: str | None = Field(None, max_length=255)
    instructions: str | None = Field(None, max_length=100_000)
    model: str | None = Field(None, max_length=200)
    thinking_level: str | None = Field(None, max_length=64)
    service_tier: str | None = Field(None, max_length=64)
    model_profile: str | None = Field(None, max_length=64)
    custom_args: list[Arg] | None = Field(None, max_length=MAX_ARGS)
    mcp_config: dict[str, Any] | None = None
    runtime_config: RuntimeConfig | None = None
    max_concurrent_tasks: int | None = Field(None, ge=1, le=50)
    max_turns: int | None = Field(None, ge=1, le=10_000)
    permission_mode: PermissionMode | None = None
    visibility: LegacyVisibility | None = None
    invocation_targets: list[InvocationTarget] | None = Field(None, max_length=200)
    custom_env: Any = None


class PutAgentEnv(Body):
    """The whole map; ``****`` keeps a stored value. `version`: the one that was read, to notice another's change."""

    custom_env: dict[str, str] = Field(max_length=1000)
    version: str | None = None


class AgentEnv(Body):
    custom_env: dict[str, str]
    version: str = ""


class ReadinessReason(Body):
    """What keeps an agent from working, or makes it work otherwise than asked: a code to decide by, a sentence, and
    what to do. `weight`: it `blocks` work, work `waits` for it, or it is only to be `known`."""

    code: str
    message: str
    repair: str = ""
    weight: Literal["blocks", "waits", "known"]


class Readiness(Body):
    """`blocked`: somebody has to repair it first. `waiting`: work is queued until the machine is back."""

    state: Literal["ready", "waiting", "blocked"] = "ready"
    reasons: list[ReadinessReason] = Field(default_factory=list)


class AgentSkill(Body):
    id: str
    name: str
    description: str = ""


class AgentView(Body):
    """`mcp_config_redacted`: there is one, and it is not shown to this caller. The gateway's token in `runtime_config`
    is ``***`` to everybody. `skills` are in the agent's order."""

    id: str
    workspace_id: str
    name: str
    description: str = ""
    instructions: str = ""
    runtime_id: str = ""
    runtime_mode: str = ""
    provider: str = ""
    model: str | None = None
    thinking_level: str | None = None
    service_tier: str | None = None
    model_profile: str | None = None
    custom_args: list[str] = Field(default_factory=list)
    mcp_config: dict[str, Any] | None = None
    mcp_config_redacted: bool = False
    runtime_config: dict[str, Any] = Field(default_factory=dict)
    max_concurrent_tasks: int = 6
    max_turns: int | None = None
    has_custom_env: bool = False
    custom_env_key_count: int = 0
    owner_id: str = ""
    permission_mode: PermissionMode = "private"
    visibility: LegacyVisibility = "private"
    invocation_targets: list[InvocationTarget] = Field(default_factory=list)
    skills: list[AgentSkill] = Field(default_factory=list)
    status: str = "idle"
    readiness: Readiness = Field(default_factory=Readiness)
    archived: bool = False
    created_at: datetime


class ModelChoice(Body):
    """What a profile means to one provider; an absent field is the CLI's own choice. `max_tokens` are those of one
    answer, where the CLI can be told."""

    model: str | None = Field(None, max_length=200)
    thinking_level: str | None = Field(None, max_length=64)
    max_tokens: int | None = Field(None, ge=1, le=10_000_000)
    max_turns: int | None = Field(None, ge=1, le=10_000)


class PutModelProfile(Body):
    """By provider; of a built-in key those not named keep their built-in meaning."""

    providers: dict[Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9_.-]{0,39}$")], ModelChoice] = Field(
        min_length=1, max_length=50
    )


class ModelProfileView(Body):
    """`built_in`: every workspace has it. `own_providers`: those for which this workspace says what it means."""

    key: str
    built_in: bool = False
    own_providers: list[str] = Field(default_factory=list)
    providers: dict[str, ModelChoice] = Field(default_factory=dict)
