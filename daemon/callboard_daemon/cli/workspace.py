"""`callboard workspace list` and `callboard workspace settings get|set`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from callboard_daemon.cli.agent_options import FILE
from callboard_daemon.cli.api_people import PeopleCalls
from callboard_daemon.cli.context import Cli, output_option, pass_cli
from callboard_daemon.cli.output import note, one_line, print_fields, print_json, print_table, working
from callboard_daemon.cli.typed import body_from, text_of
from callboard_daemon.errors import NotFound
from callboard_wire.api import UpdateWorkspaceRequest, WorkspaceView


@click.group()
def workspace() -> None:
    """See your workspaces, and change the current one's settings."""


@workspace.command("list")
@output_option
@pass_cli
def list_workspaces(cli: Cli) -> None:
    """List the workspaces you are in."""
    cli.human_only("callboard workspace list")
    with cli.connect() as api, working(cli, "asking the server"):
        current, found = api.me().workspace_id, list(api.workspaces())
    if cli.json:
        print_json(found)
        return
    rows = [["*" if w.id == current else "", one_line(w.name, 60), w.role, w.id] for w in found]
    print_table(["", "name", "role", "id"], rows, empty="")


@workspace.group()
def settings() -> None:
    """What all agents of the workspace share."""


@settings.command("get")
@output_option
@pass_cli
def get_settings(cli: Cli) -> None:
    """Show the current workspace's settings."""
    cli.human_only("callboard workspace settings get")
    with cli.connect() as api, working(cli, "asking the server"):
        _show(cli, _current(api))


@settings.command("set")
@click.option("--name", metavar="NAME", help="What the workspace is called.")
@click.option("--context", metavar="TEXT", help="Text that every agent is given; '' for none.")
@click.option("--context-file", type=FILE, metavar="FILE", help="The same, from a file.")
@click.option(
    "--repo", "repos", multiple=True, metavar="URL", help="A repository agents work on; repeatable, replaces all."
)
@click.option("--no-repos", is_flag=True, help="No repositories.")
@click.option(
    "--always-redact-env/--no-always-redact-env",
    default=None,
    help="Show no agent's MCP configuration to anybody, not even to its owner.",
)
@output_option
@pass_cli
def set_settings(cli: Cli, /, context_file: Path | None, always_redact_env: bool | None, **given: Any) -> None:
    """Change the current workspace's settings; what is not named stays."""
    cli.human_only("callboard workspace settings set")
    repos, no_repos, context = given["repos"], given["no_repos"], given["context"]
    if (repos and no_repos) or (context is not None and context_file is not None):
        raise click.UsageError("--repo and --no-repos, and --context and --context-file, exclude each other")
    said: dict[str, Any] = {name: given[name] for name in ("name", "context") if given[name] is not None}
    if context_file is not None:
        said["context"] = text_of(context_file.read_bytes(), str(context_file))
    if repos or no_repos:
        said["repos"] = [{"url": url} for url in repos]
    if always_redact_env is not None:
        said["settings"] = {"always_redact_env": always_redact_env}
    if not said:
        raise click.UsageError("nothing to change; see `callboard workspace settings set --help`")
    with cli.connect() as api, working(cli, "changing the settings"):
        _show(cli, api.update_workspace(body_from(UpdateWorkspaceRequest, **said)))
    note("Changed.")


def _current(api: PeopleCalls) -> WorkspaceView:
    current = api.me().workspace_id
    for found in api.workspaces():
        if found.id == current:
            return found
    raise NotFound("You are in no workspace.", status=404, code="workspace_not_found")


def _show(cli: Cli, found: WorkspaceView) -> None:
    if cli.json:
        print_json(found)
        return
    print_fields(
        [
            ("id", found.id),
            ("name", found.name),
            ("your role", found.role),
            ("context", one_line(found.context, 400)),
            *(("repo", one_line(str(repo.get("url", "")), 200)) for repo in found.repos),
            *((name, one_line(str(value).lower(), 200)) for name, value in sorted(found.settings.items())),
        ]
    )
