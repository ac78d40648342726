"""Why a task does not run yet: a code to decide by, a sentence to read, and the things concerned."""

from __future__ import annotations

from callboard_control import ports
from callboard_control.store import keys, table
from callboard_control.store.models import AgentItem, DaemonItem, RuntimeItem, SlotItem, TaskItem
from callboard_control.tasks import enqueue, places, record
from callboard_wire.api import WaitReason
from callboard_wire.bodies import RUNTIME_FRESH_S
from callboard_wire.failures import FailureReason
from callboard_wire.states import TaskStatus

POSITION_UP_TO = 1000


def waiting(task: TaskItem) -> WaitReason | None:
    """The first thing that stands in the task's way, in the order a claim meets them; None once it runs or ended."""
    match record.status_of(task):
        case TaskStatus.DEFERRED:
            return _deferred(task)
        case TaskStatus.WAITING_LOCAL_DIRECTORY:
            return WaitReason(code="local_directory", message=f"Waits for a folder: {task.wait_reason or 'in use'}.")
        case TaskStatus.DISPATCHED:
            return WaitReason(
                code="preparing",
                message="Claimed; its machine is preparing the folder and the environment.",
                details={"lease_until": _iso(task.lease_until), "fence": int(task.fence or 0)},
            )
        case TaskStatus.QUEUED:
            return _agent(task) or _offline(task) or _capacity(task) or _places(task) or _position(task)
        case _:
            return None


def _deferred(task: TaskItem) -> WaitReason:
    if task.waits_for_runtime and (offline := _offline(task)):
        return offline
    place = enqueue.pending_of(task) if task.issue_id and int(task.fire_at or 0) <= ports.now_ms() else None
    if place is not None:
        return WaitReason(
            code="serialised",
            message=f"Due, and the agent has task {place.id} of the same issue to begin first.",
            details={"behind_task_id": place.id},
        )
    return WaitReason(
        code="deferred",
        message=f"Deferred until {_iso(task.fire_at)}.",
        details={"fire_at": _iso(task.fire_at)},
    )


def _agent(task: TaskItem) -> WaitReason | None:
    agent = table.get(AgentItem, keys.workspace(task.workspace_id), f"AG#{task.agent_id}")
    if agent is None:
        return WaitReason(code="agent_missing", message="Its agent no longer exists.")
    if agent.archived is not None:
        return WaitReason(code="agent_archived", message=f"Its agent {agent.name!r} is archived.")
    if not agent.runtime_id:
        message = f"Its agent {agent.name!r} has no runtime; give it one and run the task again."
        return WaitReason(code=FailureReason.AGENT_WITHOUT_RUNTIME.value, message=message)
    return None


def _offline(task: TaskItem) -> WaitReason | None:
    runtime = table.get(RuntimeItem, keys.workspace(task.workspace_id), f"RT#{task.runtime_id}")
    if runtime is None:
        return WaitReason(code="runtime_missing", message="Its runtime no longer exists; give the agent another one.")
    if not runtime.owner_id:
        message = f"Nobody owns the runtime {runtime.name!r}; register its machine anew."
        return WaitReason(code=FailureReason.RUNTIME_WITHOUT_OWNER.value, message=message)
    daemon = table.get(DaemonItem, f"DM#{runtime.daemon}", "D")
    since = None
    if runtime.offline is not None:
        since = runtime.offline
    elif daemon is None or ports.now_ms() - int(daemon.seen) > RUNTIME_FRESH_S * 1000:
        since = daemon.seen if daemon else runtime.created
    if since is None:
        return None
    return WaitReason(
        code="runtime_offline",
        message=f"{_why_offline(runtime, since)}{_elsewhere(task)}",
        details={"runtime_id": runtime.id, "offline_since": _iso(since), "reason": runtime.offline_reason or {}},
    )


def _why_offline(runtime: RuntimeItem, since: float) -> str:
    reason = runtime.offline_reason or {}
    if reason.get("code") == "profile_disabled":
        return f"The runtime profile of {runtime.name!r} is disabled since {_iso(since)}; enable it."
    if reason.get("code") == "profile_failed":
        return f"The machine of {runtime.name!r} cannot offer it since {_iso(since)}: {reason.get('detail', '')}."
    return f"The machine of {runtime.name!r} is offline since {_iso(since)}; start its daemon."


def _elsewhere(task: TaskItem) -> str:
    """What to do where the agent has been given another runtime since: a task stays where it was made."""
    agent = table.get(AgentItem, keys.workspace(task.workspace_id), f"AG#{task.agent_id}", consistent=False)
    moved = agent is not None and agent.runtime_id not in (None, task.runtime_id)
    return f" Or take it to where its agent works now: callboard task rerun {task.id}." if moved else ""


def _capacity(task: TaskItem) -> WaitReason | None:
    slot = table.get(SlotItem, f"AG#{task.agent_id}", "SLOT")
    running = sorted(slot.running or ()) if slot else []
    agent = table.get(AgentItem, keys.workspace(task.workspace_id), f"AG#{task.agent_id}")
    limit = int(agent.max_concurrent_tasks) if agent else 0
    if slot and task.lane and task.lane in (slot.lanes or ()):
        others = table.get_many(TaskItem, [(keys.task(t), "T") for t in running])
        behind = next((o.id for o in others if o.lane == task.lane), "")
        return WaitReason(
            code="serialised",
            message=f"The agent works on the same {'chat' if task.chat_session_id else 'issue'} in task {behind}.",
            details={"behind_task_id": behind},
        )
    if len(running) >= limit:
        return WaitReason(
            code="agent_at_capacity",
            message=f"The agent already runs {len(running)} of {limit} tasks.",
            details={"running_task_ids": running, "max_concurrent_tasks": limit},
        )
    return None


def _places(task: TaskItem) -> WaitReason | None:
    """The limit of its runtime, over all agents there."""
    runtime = table.get(RuntimeItem, keys.workspace(task.workspace_id), f"RT#{task.runtime_id}")
    if runtime is None or runtime.max_concurrent_tasks is None:
        return None
    limit, running = int(runtime.max_concurrent_tasks), places.in_flight(runtime.id)
    if len(running) < limit:
        return None
    return WaitReason(
        code="runtime_at_capacity",
        message=f"Its runtime already runs {len(running)} of {limit} tasks.",
        details={"runtime_id": runtime.id, "running_task_ids": running, "max_concurrent_tasks": limit},
    )


def _position(task: TaskItem) -> WaitReason:
    """How many are before it on its runtime. Counted on the index, which may be a moment behind."""
    ahead, cursor = 0, None
    while ahead < POSITION_UP_TO:
        page = table.rows(
            TaskItem.ready_index,
            keys.ready_of(task.runtime_id),
            TaskItem.rsk < (task.rsk or ""),
            limit=250,
            cursor=cursor,
        )
        ahead += len(page.items)
        cursor = page.cursor
        if cursor is None:
            break
    return WaitReason(
        code="queued",
        message="Next in line; its machine has not asked yet." if ahead == 0 else f"{ahead} tasks are before it.",
        details={"position": ahead + 1},
    )


def _iso(ms: float | None) -> str:
    moment = record.at(ms)
    return moment.isoformat(timespec="seconds").replace("+00:00", "Z") if moment else ""
