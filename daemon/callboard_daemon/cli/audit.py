"""`callboard audit list|export`."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

import click

from callboard_daemon.cli.context import Cli, output_option, pass_cli
from callboard_daemon.cli.limited import first, limit_option
from callboard_daemon.cli.output import one_line, print_json, print_table, working
from callboard_daemon.cli.typed import NAMED
from callboard_daemon.durations import parse_duration
from callboard_wire.api import AuditEntry

F = TypeVar("F", bound=Callable[..., Any])


@click.group()
def audit() -> None:
    """Read who did what to which thing when."""


def _moment(ctx: click.Context, param: click.Parameter, text: str | None) -> datetime | None:
    """`24h` ago, or a date, or a time; local where no zone is said."""
    if text is None:
        return None
    try:
        return datetime.now(UTC) - timedelta(seconds=parse_duration(text))
    except (ValueError, OverflowError):
        pass
    try:
        return datetime.fromisoformat(text).astimezone()
    except (ValueError, OverflowError):
        raise click.BadParameter("give a duration such as 24h, a date or a time (2026-11-30T12:00)") from None


def _filters(command: F) -> F:
    for option in reversed(
        (
            click.option("--action", type=NAMED, metavar="WORD", help="Only these deeds, such as agent_env_revealed."),
            click.option("--actor", type=NAMED, metavar="WHO", help="Only this one's, such as member:<id>."),
            click.option(
                "--thing", type=NAMED, metavar="THING", help="Only to this, such as agent:<id>; agent: for all agents."
            ),
            click.option("--since", callback=_moment, metavar="WHEN", help="From then on: 24h, 2026-11-30, a time."),
            click.option("--until", callback=_moment, metavar="WHEN", help="Before then."),
        )
    ):
        command = option(command)
    return command


@audit.command("list")
@_filters
@limit_option(50)
@output_option
@pass_cli
def list_entries(cli: Cli, /, limit: int, **wanted: Any) -> None:
    """List the newest entries. For owners and admins."""
    cli.human_only("callboard audit list")
    with cli.connect() as api, working(cli, "asking the server"):
        entries = first(api.audit(**_sent(wanted), limit=min(limit, 100)), limit)
    if cli.json:
        print_json(entries)
        return
    rows = [[_when(e), e.action, one_line(e.actor, 60), one_line(e.thing, 80), _details(e)] for e in entries]
    print_table(["when", "action", "who", "thing", "details"], rows, empty="Nothing.")


@audit.command()
@_filters
@pass_cli
def export(cli: Cli, /, **wanted: Any) -> None:
    """Write every entry to stdout, newest first, one JSON object a line."""
    cli.human_only("callboard audit export")
    with cli.connect() as api:
        entries: Iterator[AuditEntry] = api.audit(**_sent(wanted), limit=100)
        for entry in entries:
            click.echo(entry.model_dump_json())


def _sent(wanted: dict[str, Any]) -> dict[str, Any]:
    return {k: v.isoformat() if isinstance(v, datetime) else v for k, v in wanted.items()}


def _when(entry: AuditEntry) -> str:
    return datetime.fromtimestamp(entry.at_ms / 1000).astimezone().strftime("%Y-%m-%d %H:%M:%S")


def _details(entry: AuditEntry) -> str:
    return one_line(" ".join(f"{k}={json.dumps(v, ensure_ascii=False)}" for k, v in entry.details.items()), 120)
