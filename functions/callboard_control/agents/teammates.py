"""Agents: a teammate's identity and configuration."""

from __future__ import annotations

import unicodedata

from callboard_control import ports
from callboard_control.actor import Person, TaskAgent
from callboard_control.errors import Conflict, InvalidRequest, NotFound
from callboard_control.fleet import machines
from callboard_control.store import keys, table
from callboard_control.store.errors import ConditionFailed
from callboard_control.store.models import AgentItem, AgentNameItem, SlotItem, new
from callboard_control.tasks.record import at
from callboard_wire.agents import AgentView, CreateAgentRequest, UpdateAgentRequest
from callboard_wire.api import Page

DEFAULT_CONCURRENCY = 6
A = AgentItem
Viewer = Person | TaskAgent


def create(person: Person, request: CreateAgentRequest) -> AgentItem:
    """A new agent, owned by `person`, bound to the runtime named (or the only one that fits).

    Raises `Conflict` ``name_taken`` (archived agents keep theirs), `InvalidRequest`.
    """
    refuse_odd_name(request.name)
    refuse_env(request)
    runtime = machines.find_runtime(
        person.workspace_id, runtime_id=request.runtime_id, provider=request.provider and request.provider.lower()
    )
    agent_id = keys.new_id()
    item: AgentItem = new(
        A,
        pk=keys.workspace(person.workspace_id),
        sk=f"AG#{agent_id}",
        id=agent_id,
        workspace_id=person.workspace_id,
        name=request.name,
        description=request.description,
        instructions=request.instructions,
        runtime_id=runtime.id,
        provider=runtime.provider,
        model=request.model,
        thinking_level=request.thinking_level,
        custom_args=request.custom_args or None,
        mcp_config=request.mcp_config,
        max_concurrent_tasks=request.max_concurrent_tasks or DEFAULT_CONCURRENCY,
        max_turns=request.max_turns,
        owner_id=person.user_id,
        created=ports.now_ms(),
    )
    table.refuse_oversized(item, "The agent")
    name = AgentNameItem(item.pk, f"AN#{keys.folded(request.name)}", agent_id=agent_id)
    try:
        table.transact([table.Put(item), table.Put(name, AgentNameItem.pk.does_not_exist())])
    except ConditionFailed as e:
        raise Conflict(
            f"There is an agent named {request.name!r} already; choose another name.", code="name_taken"
        ) from e
    return item


def refuse_odd_name(name: str) -> None:
    """Names are shown in lists and typed on command lines: nothing invisible and nothing that turns the line around."""
    if any(unicodedata.category(c) in ("Cc", "Cf", "Cs", "Zl", "Zp") for c in name):
        raise InvalidRequest("A name has no control or direction characters.", code="invalid_name")


def refuse_env(request: CreateAgentRequest | UpdateAgentRequest) -> None:
    """Secrets do not come in among the plain fields; dropping them in silence would leave an agent without them."""
    if "custom_env" in request.model_fields_set:
        raise InvalidRequest("The environment has its own endpoint: PUT /api/agents/{id}/env.", code="use_env_endpoint")


def find(workspace_id: str, name_or_id: str) -> AgentItem:
    """The agent with this id, or else with this name. Raises `NotFound`, for another workspace's as well."""
    item = table.get(A, keys.workspace(workspace_id), f"AG#{name_or_id}")
    if item is None:
        name = table.get(AgentNameItem, keys.workspace(workspace_id), f"AN#{keys.folded(name_or_id)}")
        item = table.get(A, keys.workspace(workspace_id), f"AG#{name.agent_id}") if name else None
    if item is None:
        raise NotFound.of("agent", name_or_id)
    return item


def list_agents(viewer: Viewer, cursor: str | None, limit: int) -> Page[AgentView]:
    page = table.rows(A, keys.workspace(viewer.workspace_id), A.sk.startswith("AG#"), limit=limit, cursor=cursor)
    slots = {s.pk: s for s in table.get_many(SlotItem, [(f"AG#{a.id}", "SLOT") for a in page.items], consistent=False)}
    views = [view(a, viewer, slots.get(f"AG#{a.id}")) for a in page.items]
    return Page[AgentView](items=views, next_cursor=page.cursor)


def view(item: AgentItem, viewer: Viewer, slot: SlotItem | None = None) -> AgentView:
    """The agent as `viewer` may see it. MCP servers' environments and headers hold credentials, so the configuration is
    for those who may change the agent; an agent never sees one, not even its own."""
    shown = item.mcp_config is None or may_change(viewer, item)
    return AgentView(
        id=item.id,
        workspace_id=item.workspace_id,
        name=item.name,
        description=item.description or "",
        instructions=item.instructions or "",
        runtime_id=item.runtime_id or "",
        provider=item.provider or "",
        model=item.model,
        thinking_level=item.thinking_level,
        custom_args=list(item.custom_args or []),
        mcp_config=item.mcp_config if shown else None,
        mcp_config_redacted=not shown,
        max_concurrent_tasks=int(item.max_concurrent_tasks),
        max_turns=int(item.max_turns) if item.max_turns else None,
        has_custom_env=bool(item.env_key_count),
        custom_env_key_count=int(item.env_key_count or 0),
        owner_id=item.owner_id or "",
        status="working" if slot is not None and slot.running else "idle",
        archived=item.archived is not None,
        created_at=at(item.created),
    )


def may_change(actor: Viewer, agent: AgentItem) -> bool:
    """Whether the actor is the agent's owner, or an owner or admin of its workspace."""
    return isinstance(actor, Person) and (actor.is_admin or agent.owner_id == actor.user_id)


def view_of(viewer: Viewer, name_or_id: str) -> AgentView:
    item = find(viewer.workspace_id, name_or_id)
    return view(item, viewer, table.get(SlotItem, f"AG#{item.id}", "SLOT", consistent=False))
