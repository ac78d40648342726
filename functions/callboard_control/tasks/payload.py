"""The claim's answer for one task, field by field, from fresh data: an agent changed since the task was made runs as it
is now. Secrets are read here and nowhere else on the way of a task."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from callboard_control import ports
from callboard_control.ports.secrets import gateway_token_of
from callboard_control.store import keys, table
from callboard_control.store.models import AgentItem, WorkspaceItem
from callboard_control.tasks import conversation, model_choice, record
from callboard_control.tasks.claim import Claim
from callboard_wire.answers import ANSWER_BYTES, PROMPT_BYTES, cost, fitted
from callboard_wire.bodies import AgentSpec, ClaimedTask

SUMMARY_CHARS = 200


@dataclass(slots=True)
class SkillsTold:
    """How skills are told in one answer: by name, or whole in what a task leaves of `room` bytes. `known` are those of
    agents that have had a task in it already: a batch is often one agent's."""

    by_name: bool
    room: int = 0
    known: dict[str, list[dict[str, Any]]] = field(default_factory=dict)


def payload(claim: Claim, provider: str, skills: SkillsTold) -> ClaimedTask:
    """What the daemon needs to run the claimed task.

    Raises what the store and the secret store raise: the caller leaves the task to its lease then.
    """
    task, agent = claim.task, claim.agent
    prompt = record.prompt_of(task)
    offer = conversation.offer(task)
    workspace = claim.workspace or table.get(WorkspaceItem, keys.workspace(task.workspace_id), "W", consistent=False)
    chosen = model_choice.of_run(task, agent, workspace, provider)
    told = ClaimedTask(
        id=task.id,
        agent_id=task.agent_id,
        runtime_id=task.runtime_id,
        workspace_id=task.workspace_id,
        kind=task.kind or "direct",
        priority=int(task.priority or 0),
        attempt=int(task.attempt or 1),
        max_attempts=int(task.max_attempts or 2),
        created_at=record.at(task.created),
        dispatched_at=record.at(task.dispatched),
        claim_id=task.claim_id,
        fence=int(task.fence or 0),
        provider=provider,
        prompt=prompt,
        thread_name=task.thread_name or "",
        issue_id=task.issue_id or "",
        chat_session_id=task.chat_session_id or "",
        parent_task_id=task.retry_of or "",
        prior_session_id=offer.session_id,
        prior_work_dir=offer.work_dir,
        prior_session_resume_unavailable=offer.gap,
        workspace_context=(workspace.context if workspace else None) or "",
        repos=(workspace.repos if workspace else None) or [],
        trigger_summary=" ".join(prompt.split())[:SUMMARY_CHARS],
        timeout_s=float(task.timeout_s) if task.timeout_s else None,
        model_profile=chosen.profile,
        model_profile_missing=chosen.missing,
        agent=AgentSpec(
            id=agent.id,
            name=agent.name,
            instructions=agent.instructions or "",
            model=chosen.choice.model,
            thinking_level=chosen.choice.thinking_level,
            service_tier=agent.service_tier,
            custom_env=ports.current().secrets.read(agent.id, agent.env_version) if agent.env_version else {},
            custom_args=list(agent.custom_args or []),
            mcp_config=agent.mcp_config,
            runtime_config=_runtime_config(agent),
            max_turns=chosen.choice.max_turns,
            max_tokens=chosen.choice.max_tokens,
        ),
        auth_token=claim.token,
    )
    _fit_prompt(told)
    _tell_skills(told, agent, skills)
    return told


def _runtime_config(agent: AgentItem) -> dict[str, Any]:
    config: dict[str, Any] = dict(agent.runtime_config or {})
    if agent.gateway_token_version:
        secret = ports.current().secrets.read(gateway_token_of(agent.id), agent.gateway_token_version)
        config["gateway"] = {**config.get("gateway", {}), **secret}
    return config


def _fit_prompt(task: ClaimedTask) -> None:
    """Cut a prompt that would not fit into an answer: two long ones that were folded into one."""
    prompt = task.prompt
    if fitted(prompt, PROMPT_BYTES) != prompt:
        task.prompt = ""
        task.prompt = fitted(prompt, ANSWER_BYTES - cost(task.model_dump(mode="json")))


def _tell_skills(task: ClaimedTask, agent: AgentItem, told: SkillsTold) -> None:
    if not agent.skills:
        return
    from callboard_control.tasks import skills  # only where there are some: a claim's cold start is a figure

    if not told.by_name:
        room = max(0, told.room - cost(task.model_dump(mode="json")))
        task.agent.skills = skills.whole(agent, room)
        return
    if agent.id not in told.known:
        told.known[agent.id] = skills.by_name(agent)
    task.agent.skill_refs = told.known[agent.id]
