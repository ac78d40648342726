"""`callboard task list|get|why|history|messages|cancel|rerun`."""

from __future__ import annotations

import click

from callboard_daemon.cli.context import Cli, output_option, pass_cli
from callboard_daemon.cli.follow import follow, print_message, usage_line
from callboard_daemon.cli.limited import first, limit_option
from callboard_daemon.cli.output import (
    ago,
    console,
    note,
    one_line,
    print_fields,
    print_json,
    print_table,
    printable,
    working,
)
from callboard_daemon.cli.run import show_end
from callboard_daemon.cli.typed import NAMED
from callboard_daemon.errors import Refused
from callboard_wire.api import TaskView
from callboard_wire.states import TaskStatus


@click.group()
def task() -> None:
    """Look at tasks, cancel and repeat them."""


@task.command("list")
@click.option("--status", type=click.Choice([s.value for s in TaskStatus]), help="Only tasks in this state.")
@click.option("--agent", type=NAMED, metavar="NAME|ID", help="Only this agent's.")
@limit_option(30)
@output_option
@pass_cli
def list_tasks(cli: Cli, status: str | None, agent: str | None, limit: int) -> None:
    """List the workspace's tasks, newest first."""
    with cli.connect() as api, working(cli, "asking the server"):
        tasks = first(api.tasks(status=status or "", agent=agent or ""), limit)
    if cli.json:
        print_json(tasks)
        return
    rows = [
        [t.id, t.status.value, t.agent_name or t.agent_id, one_line(t.prompt, 50), ago(t.created_at)] for t in tasks
    ]
    print_table(
        ["id", "status", "agent", "prompt", "created"], rows, empty='No tasks. Make one: callboard run "…" --agent NAME'
    )


@task.command("get")
@click.argument("task_id", metavar="TASK")
@output_option
@pass_cli
def get_task(cli: Cli, task_id: str) -> None:
    """Show one task: its state, why it waits, its moves, its result and cost."""
    with cli.connect() as api, working(cli, "asking the server"):
        found = api.task(task_id)
    if cli.json:
        print_json(found)
        return
    print_fields(_fields(found))
    if found.moves:
        click.echo()
        moves = [[m.at.strftime("%Y-%m-%d %H:%M:%S"), m.move, m.end, m.by] for m in found.moves]
        print_table(["at (UTC)", "move", "state", "by"], moves, empty="")
    if found.output:
        click.echo(f"\n{printable(found.output)}")


@task.command()
@click.argument("task_id", metavar="TASK")
@click.option("--since", type=click.IntRange(0), default=0, metavar="SEQ", help="Only messages after this number.")
@click.option("--follow", "follows", is_flag=True, help="Go on until the task has ended.")
@output_option
@pass_cli
def messages(cli: Cli, task_id: str, since: int, follows: bool) -> int:
    """Show what a task's run said and did."""
    with cli.connect() as api:
        if follows:
            try:
                return show_end(cli, *follow(api, task_id, console(err=cli.json), since=since))
            except KeyboardInterrupt:
                note(f"\nThe task goes on. Stop it: callboard task cancel {task_id}")
                return 130
        found = []
        with working(cli, "asking the server"):
            while (page := api.messages(task_id, since)).items:
                found += page.items
                since = page.items[-1].seq
                if not page.next_cursor:
                    break
    if cli.json:
        print_json(found)
        return 0
    screen = console(err=False)
    for message in found:
        print_message(screen, message)
    if not found:
        note("No messages yet.")
    return 0


@task.command()
@click.argument("task_id", metavar="TASK")
@output_option
@pass_cli
def why(cli: Cli, task_id: str) -> None:
    """Say why a task does not run: the first thing that stands in its way."""
    with cli.connect() as api, working(cli, "asking the server"):
        found = api.task(task_id)
    if cli.json:
        print_json(found.waiting or {"code": found.status.value, "message": _ended(found), "details": {}})
    else:
        click.echo(f"{found.waiting.code}: {found.waiting.message}" if found.waiting else _ended(found))


def _ended(found: TaskView) -> str:
    reason = f": {found.failure_reason}. {one_line(found.error, 500)}" if found.failure_reason else "."
    again = f" It was tried again as {found.retried_by_task_id}." if found.retried_by_task_id else ""
    return f"The task is {found.status.value}{reason}{again}"


@task.command()
@click.argument("task_id", metavar="TASK")
@output_option
@pass_cli
def history(cli: Cli, task_id: str) -> None:
    """List a task's moves: when, from where to where, by whom, under which claim."""
    with cli.connect() as api, working(cli, "asking the server"):
        found = api.task(task_id)
    if cli.json:
        print_json(found.moves)
        return
    rows = [
        [m.at.strftime("%Y-%m-%d %H:%M:%S"), m.move, f"{m.start or '-'} -> {m.end}", m.by, str(m.fence or ""), m.reason]
        for m in found.moves
    ]
    print_table(["at (UTC)", "move", "states", "by", "fence", "why"], rows, empty="")


@task.command()
@click.argument("task_id", metavar="TASK")
@output_option
@pass_cli
def rerun(cli: Cli, task_id: str) -> None:
    """Do a task's work once more, as a new task that continues its session where it can. It takes the place of one that
    has not started."""
    with cli.connect() as api, working(cli, "asking the server"):
        made = api.rerun(task_id)
    if cli.json:
        print_json(made)
    else:
        note(f"Task {made.id} is {made.status.value}. Follow it: callboard task messages {made.id} --follow")


@task.command()
@click.argument("task_ids", metavar="TASK...", nargs=-1, required=True)
@output_option
@pass_cli
def cancel(cli: Cli, task_ids: tuple[str, ...]) -> int:
    """Cancel tasks. A running one is stopped on its machine within seconds.

    One that cannot be cancelled keeps none of the others from it.
    """
    cancelled, refused = list[TaskView](), list[Refused]()
    with cli.connect() as api, working(cli, "cancelling"):
        for task_id in task_ids:
            try:
                cancelled.append(api.cancel(task_id))
            except Refused as error:
                refused.append(error)
    if cli.json:
        print_json(cancelled)
    for each in cancelled:
        note(f"{each.id} is {each.status.value}." if each.status.terminal else f"{each.id} is being stopped.")
    for more in refused[1:]:
        note(f"Error: {more.message}")
    if refused:
        raise refused[0]
    return 0


def _fields(found: TaskView) -> list[tuple[str, str]]:
    fields = [
        ("id", found.id),
        ("status", found.status.value),
        ("waiting", found.waiting.message if found.waiting else ""),
        ("agent", f"{found.agent_name} ({found.agent_id})" if found.agent_name else found.agent_id),
        ("runtime", found.runtime_id),
        ("prompt", one_line(found.prompt, 200)),
        ("attempt", f"{found.attempt} of {found.max_attempts}"),
        ("retried as", found.retried_by_task_id),
        ("created", ago(found.created_at)),
        ("error", one_line(found.error, 500)),
        ("reason", found.failure_reason),
        ("session", found.session_id),
        ("files", found.work_dir),
    ]
    return fields + [("usage", usage_line(row)) for row in found.usage]
