"""`callboard doctor`."""

from __future__ import annotations

import asyncio
import os

import click

from callboard_daemon.cli.context import Cli, output_option, pass_cli
from callboard_daemon.cli.output import note, print_json, print_table, working
from callboard_wire.api import OffenceView


@click.command()
@click.option("--server", "server", is_flag=True, help="Check the workspace's tasks on the server instead.")
@click.argument("providers", metavar="[PROVIDER]...", nargs=-1)
@output_option
@pass_cli
def doctor(cli: Cli, server: bool, providers: tuple[str, ...]) -> int:
    """Look whether this machine's coding CLIs are ready: found, runnable, new enough, logged in.

    Ends with 1 if something cannot work. With --server it checks every task of the workspace against the rules of the
    state machine instead (owners and admins), and ends with 1 if one is broken.
    """
    if server and providers:
        raise click.UsageError("--server checks tasks, a provider is of this machine: give one of them")
    return _server(cli) if server else _machine(cli, providers)


def _server(cli: Cli) -> int:
    checked, offences = 0, list[OffenceView]()
    with cli.connect() as api, working(cli, "checking the workspace"):
        for page in api.doctor():
            checked += page.checked
            offences += page.offences
    if cli.json:
        print_json({"checked": checked, "offences": [o.model_dump() for o in offences]})
    else:
        print_table(["rule", "thing", "found"], [[o.rule, o.thing, o.detail] for o in offences], empty="")
        note(f"{checked} tasks checked, {len(offences)} offences.")
    return 1 if offences else 0


def _machine(cli: Cli, providers: tuple[str, ...]) -> int:
    from callboard_adapters import BackendConfig, create_backend
    from callboard_adapters.doctor import Level
    from callboard_adapters.registry import providers as known_providers
    from callboard_daemon.discover import discover

    settings = cli.settings()
    known = known_providers()
    if unknown := [name for name in providers if name not in known]:
        raise click.UsageError(f"unknown provider {unknown[0]!r}; known: {', '.join(known)}")
    names = providers or tuple(known)

    async def look() -> list[dict[str, str]]:
        found = (await discover(settings, os.environ)).found
        rows: list[dict[str, str]] = []
        for name in names:
            if name not in found and not providers:
                continue
            where = found[name].executable if name in found else ""
            backend = create_backend(name, BackendConfig(executable=where))
            for finding in await backend.test_environment():
                rows.append(
                    {
                        "provider": name,
                        "level": finding.level.value,
                        "code": finding.code.value,
                        "finding": finding.sentence,
                        "repair": finding.repair,
                    }
                )
        return rows

    with working(cli, "looking at this machine"):
        rows = asyncio.run(look())
    if cli.json:
        print_json(rows)
    else:
        print_table(
            ["provider", "level", "finding", "repair"],
            [[r["provider"], r["level"], r["finding"], r["repair"]] for r in rows],
            empty="No coding CLI was found here; install one, or name its path (docs/reference/settings.md).",
        )
    return 1 if any(r["level"] == Level.ERROR.value for r in rows) else 0
