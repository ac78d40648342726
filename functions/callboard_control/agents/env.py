"""An agent's secret environment: written whole, shown only to the people who own it, every look written down first."""

from __future__ import annotations

import re

from callboard_control import ports
from callboard_control.actor import Person
from callboard_control.errors import Conflict, Forbidden, InvalidRequest, Unavailable
from callboard_control.identity import audit
from callboard_control.permissions import may_change
from callboard_control.ports.secrets import SecretsLost, SecretsUnavailable
from callboard_control.store import keys, table
from callboard_control.store.errors import ConditionFailed
from callboard_control.store.models import AgentItem
from callboard_wire.agents import AgentEnv, PutAgentEnv
from callboard_wire.environment import KEEP, MAX_BYTES, refused_keys

A = AgentItem
LOST = "Bring secrets.key back from a copy, or set its variables again: `callboard agent env set`."
_LINE = re.compile(r"[\r\n=\0]")


def reveal(person: Person, agent: AgentItem) -> AgentEnv:
    """The values, to the agent's owner or an owner or admin of the workspace. The audit row is written first: no audit,
    no answer."""
    _may(person, agent)
    audit.write(person, "agent_env_revealed", f"agent:{agent.id}", keys=int(agent.env_key_count or 0))
    return AgentEnv(custom_env=current(agent), version=agent.env_version or "")


def masked(person: Person, agent: AgentItem) -> AgentEnv:
    """The names, each with ``****``: what a change needs to know, for which no secret is revealed. None where they can
    never be read again: then a change begins anew."""
    _may(person, agent)
    return AgentEnv(custom_env=dict.fromkeys(_unless_lost(agent), KEEP), version=agent.env_version or "")


def replace(person: Person, agent: AgentItem, request: PutAgentEnv) -> AgentEnv:
    """Put the whole map. ``****`` keeps the stored value of a key (and is dropped for an unknown one); a missing key is
    removed. With `version` the write is refused when somebody else changed the map since. The answer shows what was
    sent: values that were kept stay masked, for a map of masks would otherwise reveal everything without a row that
    says so.

    Raises `InvalidRequest`, `Forbidden`, `Conflict` ``env_changed`` or ``env_lost`` (a value was to be kept that can
    never be read again), `Unavailable`.
    """
    _may(person, agent)
    _refuse(request.custom_env)
    if request.version is not None and request.version != (agent.env_version or ""):
        raise _changed(agent)
    before = current(agent) if KEEP in request.custom_env.values() else _unless_lost(agent)
    after = {k: before[k] if v == KEEP else v for k, v in request.custom_env.items() if v != KEEP or k in before}
    version = keys.new_id()
    try:
        ports.current().secrets.write(agent.id, version, after)
    except SecretsUnavailable as e:
        raise Unavailable("The secret store did not take the environment; nothing was changed.") from e
    actions = [A.env_version.set(version), A.env_key_count.set(len(after))]
    same = A.env_version.does_not_exist() if agent.env_version is None else A.env_version == agent.env_version
    deed = audit.put(
        person,
        "agent_env_updated",
        f"agent:{agent.id}",
        added=sorted(after.keys() - before.keys()),
        removed=sorted(before.keys() - after.keys()),
        changed=sorted(k for k in after.keys() & before.keys() if after[k] != before[k]),
    )
    try:
        table.transact([table.Update(A(agent.pk, agent.sk), actions, same), deed])
    except ConditionFailed as e:
        raise _changed(agent) from e
    return AgentEnv(custom_env={k: request.custom_env[k] for k in after}, version=version)


def current(agent: AgentItem) -> dict[str, str]:
    """What the agent's version holds. Raises `Unavailable`, or `Conflict` ``env_lost`` when it will never be."""
    if not agent.env_version:
        return {}
    try:
        return ports.current().secrets.read(agent.id, agent.env_version)
    except SecretsLost as e:
        raise Conflict(
            f"The agent's environment cannot be read: {e}. {LOST}", code="env_lost", agent_id=agent.id
        ) from e
    except SecretsUnavailable as e:
        raise Unavailable("The secret store did not answer; try again in a moment.") from e


def _unless_lost(agent: AgentItem) -> dict[str, str]:
    """As `current`, and nothing for what can never be read again."""
    try:
        return current(agent)
    except Conflict:
        return {}


def _may(person: Person, agent: AgentItem) -> None:
    if not may_change(person, agent):
        raise Forbidden("Only the agent's owner, or an owner or admin of the workspace, handles its environment.")


def _refuse(values: dict[str, str]) -> None:
    odd = sorted(name for name in values if not name or _LINE.search(name))
    blocked = [name for name in refused_keys(values) if name not in odd]
    if odd or blocked:
        raise InvalidRequest(
            "These variables cannot be set: " + ", ".join(repr(n) for n in [*odd, *blocked]) + ".",
            code="env_key_refused",
            keys=[*odd, *blocked],
        )
    size = sum(len(k.encode()) + len(v.encode("utf-8", "replace")) for k, v in values.items())
    if size > MAX_BYTES:
        raise InvalidRequest(f"The environment has {size} bytes; {MAX_BYTES} fit.", code="env_too_large", bytes=size)


def _changed(agent: AgentItem) -> Conflict:
    return Conflict(
        "Somebody changed this environment since you read it; read it again.", code="env_changed", agent_id=agent.id
    )
