"""`callboard run`: give an agent a task, and watch."""

from __future__ import annotations

import sys
import uuid
from datetime import UTC, datetime

import click

from callboard_daemon.cli.context import Cli, output_option, pass_cli
from callboard_daemon.cli.follow import follow, print_end
from callboard_daemon.cli.output import console, note, print_json, working
from callboard_daemon.cli.typed import body_from, text_of
from callboard_daemon.durations import parse_duration
from callboard_daemon.errors import ExitCode
from callboard_wire.api import EnqueueRequest, TaskView
from callboard_wire.states import TaskStatus


@click.command()
@click.argument("prompt")
@click.option("--agent", "agent", required=True, metavar="NAME|ID", help="Who is to do it.")
@click.option("--follow", "follows", is_flag=True, help="Watch it, and end with 1 when it fails.")
@click.option("--priority", type=click.IntRange(0, 4), default=0, show_default=True, help="Higher goes first.")
@click.option("--thread", "thread_name", default="", metavar="NAME", help="What the conversation is called.")
@click.option("--resume", "resume_task_id", metavar="TASK", help="Go on with that task's conversation and folder.")
@click.option("--timeout", metavar="DURATION", help="End the run after so long: 90s, 30m, 2h.")
@click.option("--at", "fire_at", type=click.DateTime(), metavar="TIME", help="Not before this time (UTC).")
@click.option(
    "--model-profile",
    "--profile",
    "model_profile",
    metavar="KEY",
    help="Which model: default, fast, smart, or one of `callboard model-profile list`.",
)
@click.option("--idempotency-key", metavar="KEY", help="The same key is the same task, however often it is sent.")
@output_option
@pass_cli
def run(
    cli: Cli,
    prompt: str,
    agent: str,
    follows: bool,
    priority: int,
    thread_name: str,
    resume_task_id: str | None,
    timeout: str | None,
    fire_at: datetime | None,
    model_profile: str | None,
    idempotency_key: str | None,
) -> int:
    """Give the agent a task. PROMPT is what it is to do; `-` reads it from stdin.

    Ctrl-C while following leaves the task running.
    """
    body = body_from(
        EnqueueRequest,
        agent=agent,
        prompt=_prompt(prompt),
        priority=priority,
        thread_name=thread_name,
        resume_task_id=resume_task_id,
        timeout_s=_seconds(timeout),
        fire_at=fire_at.replace(tzinfo=UTC) if fire_at else None,
        model_profile=model_profile,
        idempotency_key=uuid.uuid4().hex if idempotency_key is None else idempotency_key,
    )
    with cli.connect() as api:
        with working(cli, "handing over the task"):
            task = api.enqueue(body)
        if not follows:
            if cli.json:
                print_json(task)
            else:
                click.echo(task.id)
                note(f"Watch it: callboard task messages {task.id} --follow")
            return ExitCode.OK
        screen = console(err=cli.json)
        note(f"task {task.id} for {task.agent_name or agent}")
        try:
            task, said = follow(api, task.id, screen)
        except KeyboardInterrupt:
            note(f"\nLeft running. Watch it: callboard task messages {task.id} --follow")
            note(f"Stop it: callboard task cancel {task.id}")
            return 130
    return show_end(cli, task, said)


def show_end(cli: Cli, task: TaskView, said: str) -> int:
    """Print how a followed task ended (`said` is the text that stands there already); the command's exit code."""
    if cli.json:
        print_json(task)
    else:
        print_end(task, shown=said)
    return ExitCode.OK if task.status is TaskStatus.COMPLETED else ExitCode.ERROR


def _prompt(given: str) -> str:
    text = text_of(sys.stdin.buffer.read(), "stdin") if given == "-" else given
    if not text.strip():
        raise click.UsageError("the prompt is empty")
    return text


def _seconds(text: str | None) -> float | None:
    if text is None:
        return None
    try:
        seconds = parse_duration(text)
    except ValueError as error:
        raise click.UsageError(f"--timeout: {error}") from None
    if not seconds:
        raise click.UsageError("--timeout must be more than 0")
    return seconds
