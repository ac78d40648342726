"""Who an agent's owner lets use it, from the fields a request sends to the two attributes the store keeps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from callboard_control.actor import Person
from callboard_control.errors import Forbidden, InvalidRequest
from callboard_control.permissions import EVERYBODY, PRIVATE, PUBLIC_TO, owns
from callboard_control.store import keys, table
from callboard_control.store.models import AgentItem, MemberItem
from callboard_wire.agents import InvocationTarget

FIELDS: Final = ("permission_mode", "visibility", "invocation_targets")
_MEMBER: Final = "member:"


@dataclass(frozen=True, slots=True)
class Invitation:
    """`mode` is `private` or `public_to`; `targets` as stored, and none while private."""

    mode: Literal["private", "public_to"] = PRIVATE
    targets: tuple[str, ...] = ()

    @property
    def visibility(self) -> Literal["private", "workspace"]:
        """What an older client is told: it knows all or nobody."""
        return "workspace" if EVERYBODY in self.targets else PRIVATE

    def attributes(self) -> dict[str, Any]:
        """As the store keeps it; private is the absence of both."""
        return {
            "permission_mode": self.mode if self.targets else None,
            "invocation_targets": list(self.targets) or None,
        }


def of(agent: AgentItem) -> Invitation:
    return Invitation(PUBLIC_TO, tuple(agent.invocation_targets or ())) if agent.permission_mode else Invitation()


def shown(invitation: Invitation, workspace_id: str) -> list[InvocationTarget]:
    return [
        InvocationTarget(target_type="member", target_id=target.removeprefix(_MEMBER))
        if target.startswith(_MEMBER)
        else InvocationTarget(target_type="workspace", target_id=workspace_id)
        for target in invitation.targets
    ]


def wanted(workspace_id: str, sent: Mapping[str, Any], current: Invitation) -> Invitation:
    """What `sent` (the fields of a request that are not absent) makes of `current`.

    `permission_mode` decides. Without it `visibility` does, unless it says what an older client was told anyway: that
    is a form sent back, and must not close an agent that is open to single members. `private` has no targets; to open
    an agent to nobody in particular is to open it to the workspace. Raises `InvalidRequest` for strangers.
    """
    mode, visibility = sent.get("permission_mode"), sent.get("visibility")
    targets = sent.get("invocation_targets")
    if mode is None and visibility not in (None, current.visibility):
        mode, targets = (PUBLIC_TO, [EVERYBODY]) if visibility == EVERYBODY else (PRIVATE, None)
    if (mode or current.mode) == PRIVATE:
        return Invitation()
    if targets is None:
        return Invitation(PUBLIC_TO, current.targets or (EVERYBODY,))
    return Invitation(PUBLIC_TO, _stored(workspace_id, targets, current) or (EVERYBODY,))


def refuse_foreign_change(person: Person, agent: AgentItem, before: Invitation, after: Invitation) -> None:
    """Who may use an agent is its owner's to say, for it works with what the owner's machine is logged in to; an
    admin's unchanged echo is no change. Raises `Forbidden`."""
    if before != after and not owns(person, agent):
        raise Forbidden("Only the agent's owner says who may use it.", code="agent_owner_only")


def _stored(workspace_id: str, targets: Sequence[Any], current: Invitation) -> tuple[str, ...]:
    """Who is invited anew must be a member; somebody invited before, who has left since, is no mistake of this call."""
    named = [t if isinstance(t, str) else _name(workspace_id, t) for t in targets]
    members = {name.removeprefix(_MEMBER) for name in {*named} - {*current.targets} if name.startswith(_MEMBER)}
    found = table.get_many(MemberItem, [(keys.workspace(workspace_id), f"ME#{user}") for user in members])
    strangers = sorted(members - {member.user_id for member in found})
    if strangers:
        raise InvalidRequest(
            "These are no members of the workspace: " + ", ".join(map(repr, strangers)) + ".",
            code="member_not_found",
            target_ids=strangers,
        )
    return tuple(sorted(set(named)))


def _name(workspace_id: str, target: Mapping[str, str]) -> str:
    if target["target_type"] == "member":
        return _MEMBER + target.get("target_id", "")
    if target.get("target_id", "") not in ("", workspace_id):
        raise InvalidRequest("An agent can only be opened to its own workspace.", code="workspace_of_another")
    return EVERYBODY
