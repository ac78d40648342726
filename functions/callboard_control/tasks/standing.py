"""Standing: whether a task may be handed out at all, and on what ground.

A queued task whose agent, runtime or owner is gone can never run. Left where it is, it would be met and passed over by
every claim for ever; so the claim that meets it ends it, with the reason, and goes on with those behind it. A run acts
for the person whose runtime it is on: without that person it is refused, never run on the machine's own credential.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from callboard_control.actor import Daemon
from callboard_control.store import keys, table
from callboard_control.store.fleet_items import WITHDRAWN
from callboard_control.store.models import AgentItem, Item, MemberItem, RuntimeItem, SlotItem, TaskItem, WorkspaceItem
from callboard_control.tasks.ready import ReadyRow
from callboard_wire.failures import FailureReason

Wanted = tuple[type[Item], str, str]


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a task is never handed out: what is stored with it."""

    reason: FailureReason
    message: str


class Standing:
    """What one claim call has read of that which tasks have in common: each item once, most of them in the same call
    that reads the first candidate. What changes meanwhile is seen by the next call."""

    def __init__(self, daemon: Daemon) -> None:
        self._daemon = daemon
        self._key = keys.workspace(daemon.workspace_id)
        self._known: dict[tuple[str, str], Any] = {}

    def read(self, task_id: str, agent_id: str, runtime_id: str) -> tuple[TaskItem | None, SlotItem | None]:
        """The task and its agent's slot as they are now; with them, in one call, what its standing depends on."""
        fresh: list[Wanted] = [(TaskItem, keys.task(task_id), "T"), (SlotItem, f"AG#{agent_id}", "SLOT")]
        task, slot = self._together(fresh, agent_id, runtime_id)
        return task, slot

    def learn(self, agent_id: str, runtime_id: str) -> None:
        """Read what is not known yet of where a task stands, in one call."""
        self._together([], agent_id, runtime_id)

    @property
    def workspace(self) -> WorkspaceItem | None:
        workspace: WorkspaceItem | None = self._get(WorkspaceItem, "W")
        return workspace

    def runtime(self, runtime_id: str) -> RuntimeItem | None:
        runtime: RuntimeItem | None = self._get(RuntimeItem, f"RT#{runtime_id}")
        return runtime

    def is_withdrawn(self, runtime_id: str) -> bool:
        """Whether somebody has taken the runtime out of use; a claim may be held while they do."""
        runtime = self.runtime(runtime_id)
        reason = runtime.offline_reason if runtime is not None and runtime.offline is not None else None
        return str((reason or {}).get("code")) in WITHDRAWN  # a machine's own may be anything

    def of(self, task: TaskItem) -> AgentItem | Refusal:
        """The agent that `task` runs as, or why it can never run for this machine."""
        if task.workspace_id != self._daemon.workspace_id:
            return Refusal(FailureReason.WORKSPACE_MISMATCH, "The task's workspace is not its runtime's.")
        agent = self._of_agent(task)
        return agent if isinstance(agent, Refusal) else self._of_runtime(task) or agent

    def _of_agent(self, task: TaskItem) -> AgentItem | Refusal:
        agent: AgentItem | None = self._get(AgentItem, f"AG#{task.agent_id}") if task.agent_id else None
        if agent is None or agent.archived is not None:
            return _unknown("The task's agent no longer exists or is archived.")
        if agent.id != task.agent_id:
            return _unknown("The task names another agent than the one that is there.")
        if agent.workspace_id != task.workspace_id:
            return Refusal(FailureReason.WORKSPACE_MISMATCH, "The task's workspace is not its agent's.")
        if not agent.runtime_id:
            message = f"The agent {agent.name!r} has no runtime; give it one and run the task again."
            return Refusal(FailureReason.AGENT_WITHOUT_RUNTIME, message)
        return agent

    def _of_runtime(self, task: TaskItem) -> Refusal | None:
        runtime = self.runtime(task.runtime_id)
        if runtime is None or runtime.id != task.runtime_id:
            return _unknown("The task's runtime no longer exists.")
        if runtime.workspace_id != task.workspace_id:
            return Refusal(FailureReason.WORKSPACE_MISMATCH, "The task's workspace is not its runtime's.")
        if not runtime.owner_id or self._get(MemberItem, f"ME#{runtime.owner_id}") is None:
            message = f"Nobody of the workspace owns the runtime {runtime.name!r}; register its machine anew."
            return Refusal(FailureReason.RUNTIME_WITHOUT_OWNER, message)
        return None

    def _together(self, fresh: Sequence[Wanted], agent_id: str, runtime_id: str) -> list[Any]:
        # The machine's owner owns its runtimes, save those that were given away: that one costs no call of its own.
        lasting: list[Wanted] = [
            (AgentItem, self._key, f"AG#{agent_id}"),
            (RuntimeItem, self._key, f"RT#{runtime_id}"),
            (WorkspaceItem, self._key, "W"),
            (MemberItem, self._key, f"ME#{self._daemon.owner_id}"),
        ]
        unknown = [(kind, pk, sk) for kind, pk, sk in lasting if (pk, sk) not in self._known]
        wanted = [*fresh, *unknown]
        found = table.get_together(*wanted) if wanted else []
        for (_, pk, sk), item in zip(unknown, found[len(fresh) :], strict=True):
            self._known[pk, sk] = item
        return found[: len(fresh)]

    def _get(self, kind: type[Any], sk: str) -> Any:
        if (self._key, sk) not in self._known:
            self._known[self._key, sk] = table.get(kind, self._key, sk)
        return self._known[self._key, sk]


def misplaced(task: TaskItem, row: ReadyRow, runtime_id: str) -> Refusal | None:
    """Why a task is not the one its place in the queue of `runtime_id` says it is; None if it is that one. None of
    the three ever changes while a task waits, so a row that is merely old says the same."""
    if task.id == row.task_id and task.runtime_id == runtime_id and (task.agent_id or "") == row.agent_id:
        return None
    return _unknown("The task is not the one that its place in the queue names: its id, agent or runtime differ.")


def _unknown(message: str) -> Refusal:
    return Refusal(FailureReason.INVALID_TASK_IDENTITY, message)
