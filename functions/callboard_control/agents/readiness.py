"""Whether an agent can work, and what to do where it cannot: configuration first, then its runtime.

    archived, unbound, runtime gone or nobody's, its CLI cannot be started   blocked: work is refused, or fails
    machine offline                                                          waiting: work is queued until it is back
    otherwise                                                                ready, perhaps with something to know

Everything comes from items that are read in batches for a whole page of agents (`Surroundings`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from callboard_control import permissions
from callboard_control.agents import gateway
from callboard_control.fleet.runtimes import is_online
from callboard_control.store import bundles, keys, table
from callboard_control.store.models import AgentItem, DaemonItem, MemberItem, RuntimeItem, SlotItem, WorkspaceItem
from callboard_control.store.skill_items import SkillItem
from callboard_control.tasks import model_choice
from callboard_control.tasks.record import at
from callboard_wire.agents import Readiness, ReadinessReason
from callboard_wire.providers import PROVIDERS, is_foreign_model, wrong_level

BY_ITSELF = "It goes on by itself when the machine is back."


@dataclass(slots=True)
class Surroundings:
    """What a page of agents is judged by and shown with. `owners` are those of the runtimes that are still members;
    `skills` those that any of the agents has."""

    workspace: WorkspaceItem | None = None
    slots: dict[str, SlotItem] = field(default_factory=dict)
    runtimes: dict[str, RuntimeItem] = field(default_factory=dict)
    daemons: dict[str, DaemonItem] = field(default_factory=dict)
    owners: frozenset[str] = frozenset()
    skills: dict[str, SkillItem] = field(default_factory=dict)


def around(workspace_id: str, agents: Iterable[AgentItem]) -> Surroundings:
    """Read what the agents are judged by: five calls, however many agents, and one more where any has skills."""
    agents, key = list(agents), keys.workspace(workspace_id)
    bound = {agent.runtime_id for agent in agents if agent.runtime_id}
    slots = table.get_many(SlotItem, [(f"AG#{agent.id}", "SLOT") for agent in agents], consistent=False)
    runtimes = table.get_many(RuntimeItem, [(key, f"RT#{runtime}") for runtime in bound], consistent=False)
    daemons = table.get_many(DaemonItem, [(f"DM#{runtime.daemon}", "D") for runtime in runtimes], consistent=False)
    owners = {runtime.owner_id for runtime in runtimes if runtime.owner_id}
    members = table.get_many(MemberItem, [(key, f"ME#{owner}") for owner in owners], consistent=False)
    given = dict.fromkeys(skill for agent in agents for skill in agent.skills or ())
    return Surroundings(
        workspace=table.get(WorkspaceItem, key, "W", consistent=False),
        slots={slot.pk.removeprefix("AG#"): slot for slot in slots},
        runtimes={runtime.id: runtime for runtime in runtimes},
        daemons={daemon.pk.removeprefix("DM#"): daemon for daemon in daemons},
        owners=frozenset(member.user_id for member in members),
        skills={skill.id: skill for skill in bundles.skills_by_id(workspace_id, given)},
    )


def of(agent: AgentItem, around: Surroundings) -> Readiness:
    reasons = [*_place(agent, around), *_configuration(agent, around)]
    weights = {reason.weight for reason in reasons}
    state = "blocked" if "blocks" in weights else "waiting" if "waits" in weights else "ready"
    return Readiness(state=state, reasons=reasons)


def _place(agent: AgentItem, around: Surroundings) -> Iterator[ReadinessReason]:
    if agent.archived is not None:
        yield ReadinessReason(
            code="agent_archived",
            message="It is archived and takes no work.",
            repair=f"callboard agent restore {agent.id}",
            weight="blocks",
        )
    if not agent.runtime_id:
        yield ReadinessReason(
            code="agent_runtime_required",
            message="It has no runtime to work on.",
            repair=f"callboard runtime list, then: callboard agent update {agent.id} --runtime ID",
            weight="blocks",
        )
        return
    runtime = around.runtimes.get(agent.runtime_id)
    if runtime is None:
        yield ReadinessReason(
            code="runtime_missing",
            message="Its runtime has been deleted.",
            repair=f"callboard agent update {agent.id} --runtime ID",
            weight="blocks",
        )
        return
    yield from _owner(agent, runtime, around)
    daemon = around.daemons.get(runtime.daemon)
    if not is_online(runtime, daemon):
        yield _offline(runtime, daemon)


def _owner(agent: AgentItem, runtime: RuntimeItem, around: Surroundings) -> Iterator[ReadinessReason]:
    if runtime.owner_id is None or runtime.owner_id not in around.owners:
        yield ReadinessReason(
            code="runtime_without_owner",
            message="Its runtime belongs to no member of the workspace, so nothing runs there.",
            repair="Register that machine's daemon as a member: callboard login, then callboard daemon start.",
            weight="blocks",
        )
    elif runtime.visibility != permissions.PUBLIC and runtime.owner_id != agent.owner_id:
        yield ReadinessReason(
            code="runtime_private",
            message="Its runtime has become private to another member: it goes on working, but once given another "
            "runtime it cannot come back.",
            repair=f"The runtime's owner: callboard runtime set {runtime.id} --visibility public",
            weight="known",
        )


def _offline(runtime: RuntimeItem, daemon: DaemonItem | None) -> ReadinessReason:
    told = runtime.offline_reason or {}
    name = daemon.device_name if daemon is not None and daemon.device_name else runtime.name
    if told.get("code") == "not_executable":
        command = told.get("repair", {}).get("command") if isinstance(told.get("repair"), dict) else None
        return ReadinessReason(
            code="runtime_unusable",
            message=f"The {runtime.provider} CLI on {name} cannot be started.",
            repair=str(command or f"On that machine: callboard doctor {runtime.provider}"),
            weight="blocks",
        )
    if told.get("code") == "profile_disabled":
        return ReadinessReason(
            code="runtime_offline",
            message="Its runtime profile is disabled; what is given to it waits.",
            repair=f"callboard runtime profile update {runtime.profile_id} --enable",
            weight="waits",
        )
    if told.get("code") == "profile_failed":
        return ReadinessReason(
            code="runtime_offline",
            message=f"The machine {name} cannot offer its runtime profile: {told.get('detail', '')}.",
            repair="On that machine: callboard daemon status",
            weight="waits",
        )
    since = at(runtime.offline if runtime.offline is not None else daemon.seen if daemon is not None else None)
    known = f" since {since.isoformat(timespec='seconds').replace('+00:00', 'Z')}" if since else ""
    return ReadinessReason(
        code="runtime_offline",
        message=f"The machine {name} is offline{known}. {BY_ITSELF}",
        repair="On that machine: callboard daemon start",
        weight="waits",
    )


def _configuration(agent: AgentItem, around: Surroundings) -> Iterator[ReadinessReason]:
    provider = agent.provider or ""
    known = PROVIDERS.get(provider)
    if agent.thinking_level and (why := wrong_level(provider, agent.thinking_level)):
        yield _to_know(
            "invalid_thinking_level",
            f"The thinking level {agent.thinking_level!r} has no effect: {why}.",
            f"callboard agent update {agent.id} --thinking-level LEVEL",
        )
    if agent.model and is_foreign_model(agent.model, provider):
        yield _to_know(
            "model_of_another_provider",
            f"The model {agent.model!r} is not one of {provider}'s, so its CLI will probably refuse it.",
            f"callboard agent update {agent.id} --model NAME",
        )
    if agent.max_turns and known is not None and not known.turn_limit:
        yield _to_know("max_turns_ignored", f"The limit on turns has no effect: {provider} has none.", "")
    if why := gateway.unread(agent):
        yield _to_know("runtime_config_unread", why, "")
    yield from _model(agent, around, provider)


def _model(agent: AgentItem, around: Surroundings, provider: str) -> Iterator[ReadinessReason]:
    own, key = model_choice.profiles_of(around.workspace), agent.model_profile
    if key and key not in model_choice.known(own):
        yield _to_know(
            "unknown_model_profile",
            f"There is no model profile {key!r} any more, so the CLI's own choice is used.",
            "callboard model-profile list",
        )
    elif key and model_choice.says(own, key, provider) is None:
        yield _to_know(
            "model_profile_says_nothing",
            f"The model profile {key!r} says nothing about {provider}, so the CLI's own choice is used.",
            f"callboard model-profile set {key} {provider} --model NAME",
        )
    elif not key and not agent.model:
        yield _to_know(
            "no_model",
            "It names no model, so the CLI's own choice is used.",
            f"callboard agent update {agent.id} --model NAME",
        )


def _to_know(code: str, message: str, repair: str) -> ReadinessReason:
    return ReadinessReason(code=code, message=message, repair=repair, weight="known")
