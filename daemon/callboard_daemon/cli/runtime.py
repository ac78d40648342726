"""`callboard runtime list|get|rename|set|delete|usage`; `runtime profile` is in a file of its own."""

from __future__ import annotations

from typing import Any

import click

from callboard_daemon.cli.context import Cli, output_option, pass_cli
from callboard_daemon.cli.output import ago, note, one_line, print_fields, print_json, print_table, working
from callboard_daemon.cli.runtime_profile import profile
from callboard_daemon.cli.typed import body_from
from callboard_wire.api import RuntimeView
from callboard_wire.runtimes import RuntimeActivity, RuntimeUsage, UpdateRuntimeRequest

TICKS_A_DOLLAR = 10**10


@click.group()
def runtime() -> None:
    """Look at and change the places where agents can run."""


runtime.add_command(profile)


@runtime.command("list")
@output_option
@pass_cli
def list_runtimes(cli: Cli) -> None:
    """List the workspace's runtimes: one a machine and coding CLI."""
    with cli.connect() as api, working(cli, "asking the server"):
        runtimes = list(api.runtimes())
    if cli.json:
        print_json(runtimes)
        return
    rows = [
        [_name(r), r.provider, r.status, r.visibility, r.device_name, r.version, ago(r.last_seen_at), r.id]
        for r in runtimes
    ]
    print_table(
        ["name", "provider", "status", "for", "machine", "version", "last seen", "id"],
        rows,
        empty="No runtimes yet. Start a daemon on a machine with a coding CLI: callboard daemon start",
    )


@runtime.command("get")
@click.argument("name_or_id", metavar="RUNTIME")
@output_option
@pass_cli
def get_runtime(cli: Cli, name_or_id: str) -> None:
    """Show one runtime, by its name or id."""
    with cli.connect() as api, working(cli, "asking the server"):
        found = api.runtime(name_or_id)
    _show(cli, found)


@runtime.command()
@click.argument("name_or_id", metavar="RUNTIME")
@click.argument("name", default="")
@output_option
@pass_cli
def rename(cli: Cli, name_or_id: str, name: str) -> None:
    """Call RUNTIME by NAME; without NAME it is called what its machine calls it."""
    _change(cli, name_or_id, custom_name=name or None)


@runtime.command("set")
@click.argument("name_or_id", metavar="RUNTIME")
@click.option("--visibility", type=click.Choice(["private", "public"]), help="Who may put agents on it: you, or all.")
@click.option("--max-concurrent-tasks", type=click.IntRange(1, 50), metavar="N", help="At most so many at once.")
@click.option("--no-limit", is_flag=True, help="As many as its machine has slots.")
@output_option
@pass_cli
def set_runtime(
    cli: Cli, name_or_id: str, visibility: str | None, max_concurrent_tasks: int | None, no_limit: bool
) -> None:
    """Change who may use RUNTIME and how much it takes at once."""
    if no_limit and max_concurrent_tasks is not None:
        raise click.UsageError("--max-concurrent-tasks and --no-limit exclude each other")
    given: dict[str, Any] = {"visibility": visibility} if visibility else {}
    if no_limit or max_concurrent_tasks is not None:
        given["max_concurrent_tasks"] = max_concurrent_tasks
    if not given:
        raise click.UsageError("say what to change: --visibility, --max-concurrent-tasks or --no-limit")
    _change(cli, name_or_id, **given)


@runtime.command()
@click.argument("name_or_id", metavar="RUNTIME")
@click.option("--unbind", is_flag=True, help="Take it from the agents that are on it; their tasks there end.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@output_option
@pass_cli
def delete(cli: Cli, name_or_id: str, unbind: bool, yes: bool) -> None:
    """Delete RUNTIME. No agent may be on it, and its machine must not offer it any more."""
    with cli.connect() as api:
        with working(cli, "asking the server"):
            found = api.runtime(name_or_id)
            agents = [a for a in api.agents() if a.runtime_id == found.id] if unbind else []
        if not yes:
            names = f", and take it from {', '.join(one_line(a.name, 64) for a in agents)}" if agents else ""
            click.confirm(f"Delete the runtime {one_line(_name(found), 100)!r}{names}?", abort=True, err=True)
        with working(cli, "deleting it"):
            if unbind:
                api.unbind_and_delete_runtime(found.id, [a.id for a in agents])
            else:
                api.delete_runtime(found.id)
    if cli.json:
        print_json({"id": found.id, "deleted": True})
    else:
        note(f"{_name(found)} is gone.")


@runtime.command()
@click.argument("name_or_id", metavar="RUNTIME")
@click.option("--days", type=click.IntRange(1, 366), default=30, show_default=True, help="Of so many days (UTC).")
@click.option("--by", type=click.Choice(["day", "hour"]), default="day", show_default=True, help="Cost, or activity.")
@output_option
@pass_cli
def usage(cli: Cli, name_or_id: str, days: int, by: str) -> None:
    """Show what RUNTIME's runs cost by day and model, or how busy it was by the hour."""
    with cli.connect() as api, working(cli, "asking the server"):
        found = api.runtime(name_or_id)
        costs = list(api.runtime_usage(found.id, days)) if by == "day" else []
        hours = list(api.runtime_activity(found.id, days)) if by == "hour" else []
    if cli.json:
        print_json(costs if by == "day" else hours)
    elif by == "day":
        _show_costs(costs)
    else:
        _show_hours(hours)


def _change(cli: Cli, name_or_id: str, **given: Any) -> None:
    body = body_from(UpdateRuntimeRequest, **given)
    with cli.connect() as api, working(cli, "asking the server"):
        changed = api.update_runtime(api.runtime(name_or_id).id, body)
    _show(cli, changed)


def _show(cli: Cli, found: RuntimeView) -> None:
    if cli.json:
        print_json(found)
        return
    reason = found.offline_reason or {}
    limit = found.max_concurrent_tasks
    print_fields(
        [
            ("id", found.id),
            ("name", _name(found)),
            ("provider", found.provider),
            ("status", found.status),
            ("why offline", one_line(f"{reason.get('code', '')}: {reason.get('detail', '')}", 500) if reason else ""),
            ("for", "every member" if found.visibility == "public" else "its owner"),
            ("owner", found.owner_id),
            ("machine", found.device_name),
            ("version", found.version),
            ("max tasks", str(limit) if limit else "the machine's slots"),
            ("profile", found.profile_id),
            ("last seen", ago(found.last_seen_at)),
        ]
    )


def _show_costs(rows: list[RuntimeUsage]) -> None:
    table = [
        [
            r.date.isoformat(),
            r.provider,
            r.model,
            str(r.runs),
            str(r.input_tokens),
            str(r.cache_read_tokens + r.cache_write_tokens),
            str(r.output_tokens),
            _dollars(r),
        ]
        for r in rows
    ]
    columns = ["day", "provider", "model", "runs", "input", "cached", "output", "cost"]
    print_table(columns, table, empty="No run has reported usage in these days.")


def _show_hours(rows: list[RuntimeActivity]) -> None:
    table = [[f"{r.hour:%Y-%m-%d %H}:00Z", str(r.runs), str(r.tokens)] for r in rows]
    print_table(["hour", "runs", "tokens"], table, empty="No run has reported usage in these days.")


def _dollars(row: RuntimeUsage) -> str:
    """What was stated; a plus says that some runs stated nothing."""
    if row.cost_usd_ticks is None:
        return "not stated"
    return f"${row.cost_usd_ticks / TICKS_A_DOLLAR:.4f}{' +' if row.uncosted_runs else ''}"


def _name(found: RuntimeView) -> str:
    return found.custom_name or found.name
