"""Agents as people and agents see them."""

from __future__ import annotations

from callboard_control.actor import Person, TaskAgent
from callboard_control.agents import gateway, invitations, readiness, settings, teammates
from callboard_control.permissions import may_change, may_see, refuse_hidden
from callboard_control.store import keys, table
from callboard_control.store.models import AgentItem
from callboard_control.tasks.record import at
from callboard_wire.agents import AgentSkill, AgentView
from callboard_wire.answers import ANSWER_BYTES, cost
from callboard_wire.api import Page

A = AgentItem
Viewer = Person | TaskAgent
PAGES_AT_MOST = 8
"""A list that leaves out much reads at most so many pages before it answers with what it found and a cursor: with
twenty, a member who may see none of a thousand agents waited 60 ms of CPU to be shown nothing."""


def list_agents(viewer: Viewer, cursor: str | None, limit: int, *, include_archived: bool) -> Page[AgentView]:
    """Those that `viewer` may see. A page may be short, and even empty, while there is a cursor to go on with: an agent
    may be 300 KB, and an answer ends at 6 MiB."""
    found: list[AgentItem] = []
    for _ in range(PAGES_AT_MOST):
        page = table.rows(
            A, keys.workspace(viewer.workspace_id), A.sk.startswith("AG#"), limit=limit - len(found), cursor=cursor
        )
        found += [a for a in page.items if may_see(viewer, a) and (include_archived or a.archived is None)]
        cursor = page.cursor
        if cursor is None or len(found) >= limit:
            break
    around = readiness.around(viewer.workspace_id, found)
    views: list[AgentView] = []
    size = 0
    for n, agent in enumerate(found):
        each = view(agent, viewer, around)
        size += cost(each.model_dump(mode="json"))
        if views and size > ANSWER_BYTES:
            return Page[AgentView](items=views, next_cursor=table.after(found[n - 1]))
        views.append(each)
    return Page[AgentView](items=views, next_cursor=cursor)


def view_of(viewer: Viewer, name_or_id: str) -> AgentView:
    """Raises `NotFound`, `Forbidden` for one that `viewer` may not see."""
    item = teammates.find(viewer.workspace_id, name_or_id)
    refuse_hidden(viewer, item)
    return shown(item, viewer)


def shown(item: AgentItem, viewer: Viewer) -> AgentView:
    return view(item, viewer, readiness.around(item.workspace_id, [item]))


def view(item: AgentItem, viewer: Viewer, around: readiness.Surroundings) -> AgentView:
    """The agent as `viewer` may see it. MCP servers' environments and headers hold credentials, so the configuration is
    for those who may change the agent; an agent never sees one, not even its own."""
    hidden = not may_change(viewer, item) or settings.always_redacts(around.workspace)
    redacted = item.mcp_config is not None and hidden
    invitation = invitations.of(item)
    slot = around.slots.get(item.id)
    return AgentView(
        id=item.id,
        workspace_id=item.workspace_id,
        name=item.name,
        description=item.description or "",
        instructions=item.instructions or "",
        runtime_id=item.runtime_id or "",
        runtime_mode="local" if item.runtime_id else "",
        provider=item.provider or "",
        model=item.model,
        thinking_level=item.thinking_level,
        service_tier=item.service_tier,
        model_profile=item.model_profile,
        custom_args=list(item.custom_args or []),
        mcp_config=None if redacted else item.mcp_config,
        mcp_config_redacted=redacted,
        runtime_config=gateway.shown(item),
        max_concurrent_tasks=int(item.max_concurrent_tasks),
        max_turns=int(item.max_turns) if item.max_turns else None,
        has_custom_env=bool(item.env_key_count),
        custom_env_key_count=int(item.env_key_count or 0),
        owner_id=item.owner_id or "",
        permission_mode=invitation.mode,
        visibility=invitation.visibility,
        invocation_targets=invitations.shown(invitation, item.workspace_id),
        skills=[
            AgentSkill(id=skill.id, name=skill.name, description=skill.description)
            for each in item.skills or ()
            if (skill := around.skills.get(each)) is not None
        ],
        status="working" if slot is not None and slot.running else "idle",
        readiness=readiness.of(item, around),
        archived=item.archived is not None,
        created_at=at(item.created),
    )
