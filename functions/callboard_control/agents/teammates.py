"""Agents: a teammate's identity and configuration."""

from __future__ import annotations

from callboard_control import ports
from callboard_control.actor import Person
from callboard_control.agents import gateway, invitations, settings, skill_choice
from callboard_control.errors import Conflict, InvalidRequest, NotFound
from callboard_control.fleet import runtimes
from callboard_control.identity import audit
from callboard_control.store import keys, table
from callboard_control.store.errors import ConditionFailed
from callboard_control.store.models import AgentItem, AgentNameItem, RuntimeItem, new
from callboard_control.tasks import model_choice
from callboard_wire.agents import CreateAgentRequest

DEFAULT_CONCURRENCY = 6
NOT_KEPT = ("custom_env", "provider", "runtime_id", "skill_ids", gateway.CONFIG)
"""Fields of a request that do not become an attribute as they are."""
A, R = AgentItem, RuntimeItem


def create(person: Person, request: CreateAgentRequest) -> AgentItem:
    """A new agent, owned by `person` and private unless it says otherwise, bound to the runtime named (or the only one
    that fits).

    Raises `Conflict` ``name_taken`` (archived agents keep theirs), `Forbidden` for a runtime that is not theirs to use,
    `InvalidRequest`, `Unavailable` where a gateway's token cannot be kept.
    """
    settings.refuse_env(request)
    runtime = runtimes.find_runtime(
        person.workspace_id,
        runtime_id=request.runtime_id,
        provider=request.provider and request.provider.lower(),
        usable_by=person,
    )
    sent = settings.cleaned(request.model_dump(exclude={*NOT_KEPT, *invitations.FIELDS}))
    settings.refuse_unfit(sent, runtime.provider)
    model_choice.refuse_unknown(person.workspace_id, sent["model_profile"])
    asked = request.model_dump(include=set(invitations.FIELDS), exclude_unset=True)
    invitation = invitations.wanted(person.workspace_id, asked, invitations.Invitation())
    agent_id = keys.new_id()
    sent |= invitation.attributes()
    sent["max_concurrent_tasks"] = request.max_concurrent_tasks or DEFAULT_CONCURRENCY
    sent["custom_args"] = request.custom_args or None
    sent["mcp_config"] = settings.restored(request.mcp_config, None)
    sent["skills"] = [skill.id for skill in skill_choice.of(person.workspace_id, request.skill_ids)] or None
    reached, token = gateway.taken_apart(request.runtime_config)
    sent |= reached
    item: AgentItem = new(
        A,
        pk=keys.workspace(person.workspace_id),
        sk=f"AG#{agent_id}",
        id=agent_id,
        workspace_id=person.workspace_id,
        runtime_id=runtime.id,
        provider=runtime.provider,
        owner_id=person.user_id,
        created=ports.now_ms(),
        **sent,
    )
    table.refuse_oversized(item, "The agent")
    if token:
        _keep_token(item, token)
    _write(person, item)
    return item


def _keep_token(item: AgentItem, token: str) -> None:
    """Not for an agent that will not be: nothing points to its secret, and nobody would ever delete it."""
    if table.get(AgentNameItem, item.pk, f"AN#{keys.folded(item.name)}") is not None:
        raise name_taken(item.name)
    gateway.keep(item.id, str(item.gateway_token_version), token)


def _write(person: Person, item: AgentItem) -> None:
    name = AgentNameItem(item.pk, f"AN#{keys.folded(item.name)}", agent_id=item.id)
    try:
        table.transact(
            [
                table.Put(item),
                table.Put(name, AgentNameItem.pk.does_not_exist()),
                still_there(item.workspace_id, item.runtime_id),
                audit.put(person, "agent_created", f"agent:{item.id}", name=item.name),
            ]
        )
    except ConditionFailed as e:
        if 2 in e.failed:
            raise runtime_gone(item.runtime_id) from e
        raise name_taken(item.name) from e


def still_there(workspace_id: str, runtime_id: str) -> table.Check:
    """A runtime that is being deleted gets no agent: whoever deletes one closes it, and then looks for agents."""
    return table.Check(R(keys.workspace(workspace_id), f"RT#{runtime_id}"), R.pk.exists() & R.closing.does_not_exist())


def runtime_gone(runtime_id: str) -> InvalidRequest:
    return InvalidRequest(
        "The runtime was deleted a moment ago; choose another one.", code="runtime_not_found", runtime_id=runtime_id
    )


def name_taken(name: str) -> Conflict:
    return Conflict(f"There is an agent named {name!r} already; choose another name.", code="name_taken")


def find(workspace_id: str, name_or_id: str) -> AgentItem:
    """The agent with this id, or else with this name. Raises `NotFound`, for another workspace's as well."""
    item = table.get(A, keys.workspace(workspace_id), f"AG#{name_or_id}")
    if item is None:
        name = table.get(AgentNameItem, keys.workspace(workspace_id), f"AN#{keys.folded(name_or_id)}")
        item = table.get(A, keys.workspace(workspace_id), f"AG#{name.agent_id}") if name else None
    if item is None:
        raise NotFound.of("agent", name_or_id)
    return item
