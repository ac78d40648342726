"""Hop 7: drive the agent's CLI through its adapter, and once more from scratch when its old conversation is gone."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from pydantic import ValidationError

from callboard_adapters.backend import create_backend
from callboard_adapters.capabilities import Capabilities
from callboard_adapters.messages import Result, RunStatus, TokenUsage, add_usage
from callboard_adapters.options import BackendConfig, ExecOptions, OpenclawGateway
from callboard_adapters.session import Session
from callboard_daemon.errors import PrepareError
from callboard_daemon.execenv.brief import prompt_for, render_brief
from callboard_daemon.prepare import Prepared, system_prompt
from callboard_daemon.report import Reporter
from callboard_daemon.settings import Settings
from callboard_daemon.stop import StopSignal
from callboard_wire.bodies import ClaimedTask
from callboard_wire.failures import FailureReason
from callboard_wire.runtime_config import RuntimeConfig

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Ran:
    """How a run ended. `retired_session_id`: the conversation that must not be offered again."""

    result: Result
    retired_session_id: str = ""


async def execute(
    task: ClaimedTask,
    prepared: Prepared,
    settings: Settings,
    run_id: str,
    reporter: Reporter,
    stop: StopSignal,
    on_session: Callable[[str], None],
) -> Ran:
    """Run the agent to its end. `on_session` gets the conversation's id as soon as the CLI tells it.

    A conversation can only be taken up in the folder where it was held; elsewhere the agent starts anew and is told.
    Raises `ExecutionError` when the CLI cannot be started, `PrepareError` when the agent's settings cannot be used.
    """
    resume = task.prior_session_id if prepared.root.reused else ""
    lost = bool(task.prior_session_id and not resume) or task.prior_session_resume_unavailable
    options = options_for(task, prepared, settings, run_id, resume=resume, lost=lost)
    if task.model_profile_missing:
        reporter.note(f"The model profile {task.model_profile!r} is gone; the run uses what is set without it.")
    prompt = prompt_for(task, continuity_lost=lost)
    first = await _once(prompt, options, task.provider, prepared, reporter, stop, on_session)
    if not (resume and _wants_fresh_session(first, reporter.tools_used) and stop.cause is None):
        return Ran(first)
    log.warning("session %s could not be resumed: starting a fresh one", resume)
    reporter.note("The earlier conversation could not be resumed; starting a new one.")
    again = replace(options, resume_session_id=None, resume_expected=True)
    prompt = prompt_for(task, continuity_lost=True)
    second = await _once(prompt, again, task.provider, prepared, reporter, stop, on_session)
    return _reconcile(first, second, resume)


def options_for(
    task: ClaimedTask, prepared: Prepared, settings: Settings, run_id: str, *, resume: str, lost: bool
) -> ExecOptions:
    """What the run asks of the adapter: the agent's wishes first, then this machine's, then the provider's defaults."""
    agent, machine, can = task.agent, settings.of_provider(task.provider), prepared.found.capabilities
    gateway = _gateway(task, can)
    here = gateway.get("openclaw_mode") != "gateway"
    brief = render_brief(task, prepared.skills if here else (), here=here)
    limits = [seconds for seconds in (task.timeout_s, settings.agent_timeout) if seconds]
    return ExecOptions(
        cwd=prepared.root.workdir,
        model=agent.model or machine.model or None,
        system_prompt=system_prompt(can, brief, here=here),
        thread_name=task.thread_name or None,
        max_turns=agent.max_turns,
        max_tokens=agent.max_tokens,
        timeout=min(limits, default=None),
        idle_watchdog_timeout=settings.idle_watchdog,
        tool_watchdog_timeout=settings.tool_watchdog,
        resume_session_id=resume or None,
        resume_expected=lost,
        extra_args=machine.args,
        custom_args=tuple(agent.custom_args),
        mcp_config=agent.mcp_config,
        thinking_level=agent.thinking_level,
        service_tier=agent.service_tier,
        run_id=run_id,
        **gateway,
    )


def _gateway(task: ClaimedTask, can: Capabilities) -> dict[str, Any]:
    """Where the run is done, as options. What cannot be read ends it: it would be done somewhere else than was said.
    Raises `PrepareError` with the fields, which hold no value."""
    if not can.gateway or not task.agent.runtime_config:
        return {}
    try:
        config = RuntimeConfig.of_claim(task.agent.runtime_config)
    except ValidationError as error:
        fields = ", ".join(".".join(map(str, problem["loc"])) for problem in error.errors(include_input=False))
        message = f"the agent's runtime_config cannot be used: {fields}"
        raise PrepareError(message, failure_reason=FailureReason.MISSING_CONFIG) from None
    pin = config.gateway
    gateway = pin and OpenclawGateway(pin.host or "", pin.port or 0, pin.tls or False, pin.token or "")
    return {"openclaw_mode": config.mode or None, "openclaw_gateway": gateway}


async def _once(
    prompt: str,
    options: ExecOptions,
    provider: str,
    prepared: Prepared,
    reporter: Reporter,
    stop: StopSignal,
    on_session: Callable[[str], None],
) -> Result:
    found = prepared.found
    config = BackendConfig(executable=found.executable, env=prepared.env, launch_prefix=found.launch_prefix)
    session = await create_backend(provider, config).execute(prompt, options)
    stopper = asyncio.create_task(_cancel_when_asked(session, stop))
    try:
        async for message in session.messages:
            if message.session_id:
                on_session(message.session_id)
            reporter.accept(message)
        result = await session.result()
    finally:
        stopper.cancel()
    if result.session_id:
        on_session(result.session_id)
    return result


async def _cancel_when_asked(session: Session, stop: StopSignal) -> None:
    await stop.wait()
    await session.cancel()


def _wants_fresh_session(result: Result, tools_used: int) -> bool:
    """Once a tool has run its effects are real: repeating the prompt would repeat them."""
    return result.status is RunStatus.FAILED and result.resume_rejected and not tools_used


def _reconcile(first: Result, second: Result, retired: str) -> Ran:
    """The second attempt counts, unless it failed without even reaching a conversation: then the first one's error is
    the one that says what is wrong. What both cost is paid either way."""
    usage: dict[str, TokenUsage] = {}
    for attempt in (first.usage, second.usage):
        _add_all(usage, attempt)
    kept = first if second.status is RunStatus.FAILED and not second.session_id else second
    duration = first.duration_ms + second.duration_ms
    return Ran(replace(kept, usage=usage, duration_ms=duration), retired)


def _add_all(total: dict[str, TokenUsage], usage: Mapping[str, TokenUsage]) -> None:
    for model, tokens in usage.items():
        add_usage(total, model, tokens)
