"""Who may see, use and change an agent, and who may put one on a runtime. Pure rules over what is already read.

                    see it    see its tasks    give it work    change it    say who may use it
    its owner       yes       yes              yes             yes          yes
    owner, admin    yes       yes              if invited      yes          –
    invited member  yes       yes              yes             –            –
    other member    –         –                –               –            –
    an agent        yes       its own, and     –               –            –
                              of open ones

An agent is private until its owner says otherwise; `public_to` invites the whole workspace or members by name. An admin
is not invited by being one: a private agent works with what its owner's machine is logged in to. A runtime is its
owner's until it is public, and one without an owner is nobody's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from callboard_control.actor import Person, TaskAgent
from callboard_control.errors import Forbidden

if TYPE_CHECKING:
    from callboard_control.store.models import AgentItem, RuntimeItem

PRIVATE: Final = "private"
PUBLIC_TO: Final = "public_to"
EVERYBODY: Final = "workspace"
"""The invitation of all members; one of a single member is ``member:<user id>``."""
PUBLIC: Final = "public"


def invites(agent: AgentItem, user_id: str) -> bool:
    """Whether the agent's owner has opened it to this member of its workspace."""
    named = agent.permission_mode == PUBLIC_TO and f"member:{user_id}" in (agent.invocation_targets or ())
    return named or _open_to_all(agent)


def _open_to_all(agent: AgentItem) -> bool:
    return agent.permission_mode == PUBLIC_TO and EVERYBODY in (agent.invocation_targets or ())


def owns(person: Person, agent: AgentItem) -> bool:
    return agent.owner_id is not None and agent.owner_id == person.user_id


def may_see(actor: Person | TaskAgent, agent: AgentItem) -> bool:
    """An agent knows all its colleagues: it has to name them."""
    return isinstance(actor, TaskAgent) or may_change(actor, agent) or invites(agent, actor.user_id)


def may_see_tasks(actor: Person | TaskAgent, agent: AgentItem) -> bool:
    """An agent sees its own runs, and those of agents that are open to everybody: with more, a member's agent would
    read to its owner what that member may not see."""
    if isinstance(actor, TaskAgent):
        return agent.id == actor.agent_id or _open_to_all(agent)
    return may_see(actor, agent)


def may_invoke(person: Person, agent: AgentItem) -> bool:
    return owns(person, agent) or invites(agent, person.user_id)


def may_change(actor: Person | TaskAgent, agent: AgentItem) -> bool:
    return isinstance(actor, Person) and (actor.is_admin or owns(actor, agent))


def may_use(person: Person, runtime: RuntimeItem) -> bool:
    return runtime.owner_id is not None and (runtime.visibility == PUBLIC or runtime.owner_id == person.user_id)


def refuse_hidden(actor: Person | TaskAgent, agent: AgentItem) -> None:
    """Raises `Forbidden` ``agent_private`` for somebody who may not see the agent."""
    if not may_see(actor, agent):
        raise Forbidden("This agent is private; its owner can open it to you.", code="agent_private")


def refuse_hidden_tasks(actor: Person | TaskAgent, agent: AgentItem) -> None:
    """Raises `Forbidden` ``agent_private`` for somebody who may not see the agent's tasks."""
    if not may_see_tasks(actor, agent):
        raise Forbidden("This task is a private agent's; its owner can open the agent to you.", code="agent_private")


def refuse_uninvited(person: Person, agent: AgentItem) -> None:
    """Raises `Forbidden` ``agent_private`` for somebody who may not give the agent work."""
    if not may_invoke(person, agent):
        raise Forbidden(
            "This agent takes work from its owner and from those its owner invites; ask its owner to open it to you.",
            code="agent_private",
        )


def refuse_unusable(person: Person, runtime: RuntimeItem) -> None:
    """Raises `Forbidden` for a runtime that `person` may not put an agent on."""
    if may_use(person, runtime):
        return
    if runtime.owner_id is None:
        raise Forbidden(
            "This runtime has no owner, so no agent may use it; register its daemon again as a member.",
            code="runtime_without_owner",
            runtime_id=runtime.id,
        )
    raise Forbidden(
        "This runtime is private to its owner, who can make it public: "
        f"`callboard runtime set {runtime.id} --visibility public`.",
        code="runtime_private",
        runtime_id=runtime.id,
    )
