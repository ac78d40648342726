"""What can be said of an agent on the command line, when it is made and when it is changed."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeVar

import click

from callboard_daemon.cli.typed import text_of

F = TypeVar("F", bound=Callable[..., Any])

FILE: Final = click.Path(exists=True, dir_okay=False, path_type=Path)
FILE_OR_STDIN: Final = click.Path(exists=True, dir_okay=False, allow_dash=True, path_type=Path)
CLEARABLE: Final = {
    "description": "description",
    "instructions": "instructions",
    "model": "model",
    "thinking-level": "thinking_level",
    "service-tier": "service_tier",
    "profile": "model_profile",
    "custom-args": "custom_args",
    "mcp-config": "mcp_config",
    "runtime-config": "runtime_config",
    "max-turns": "max_turns",
}
_OPTIONS: Final = (
    click.option(
        "--runtime", "runtime_id", metavar="ID", help="The very runtime it uses, see `callboard runtime list`."
    ),
    click.option("--instructions", metavar="TEXT", help="What it should know and how it should work."),
    click.option("--instructions-file", type=FILE, metavar="FILE", help="The same, from a file."),
    click.option("--description", metavar="TEXT", help="One line for lists."),
    click.option("--model", metavar="NAME", help="The model; without it the CLI's own choice."),
    click.option("--profile", "model_profile", metavar="KEY", help="A model profile instead: fast, smart, default, …"),
    click.option("--thinking-level", metavar="LEVEL", help="How hard it thinks, in the provider's own words."),
    click.option("--service-tier", metavar="TIER", help="The provider's service tier, where it has such."),
    click.option(
        "--custom-arg", "custom_args", multiple=True, metavar="ARG", help="An argument for its CLI; repeatable."
    ),
    click.option("--mcp-config-file", type=FILE, metavar="FILE", help="Its MCP servers, a JSON file."),
    click.option(
        "--runtime-config-file",
        type=FILE_OR_STDIN,
        metavar="FILE",
        help="How its CLI reaches what runs it (OpenClaw's mode and gateway), a JSON file; - is stdin.",
    ),
    click.option("--max-concurrent-tasks", type=click.IntRange(1, 50), metavar="N", help="How many tasks at once."),
    click.option("--max-turns", type=click.IntRange(1), metavar="N", help="End a run after so many turns."),
    click.option("--public", "access", flag_value="public", help="Every member may give it work."),
    click.option("--private", "access", flag_value="private", help="Only its owner may."),
    click.option("--invite", multiple=True, metavar="USER", help="This member may, by id; repeatable."),
)


def agent_options(command: F) -> F:
    """The options above, in this order."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def fields_of(given: dict[str, Any]) -> dict[str, Any]:
    """The fields of a request from what was typed; what was not typed is absent. Raises `click.UsageError`."""
    said = {name: value for name, value in given.items() if value not in (None, ())}
    file, config, reached, access, invite = (
        said.pop(n, None) for n in ("instructions_file", "mcp_config_file", "runtime_config_file", "access", "invite")
    )
    if file is not None:
        if "instructions" in said:
            raise click.UsageError("--instructions and --instructions-file exclude each other")
        said["instructions"] = text_of(file.read_bytes(), str(file))
    if config is not None:
        said["mcp_config"] = _object_in(config)
    if reached is not None:
        said["runtime_config"] = _object_in(reached)
    if "custom_args" in said:
        said["custom_args"] = list(said["custom_args"])
    return said | _access(access, invite or ())


def _access(access: str | None, invite: tuple[str, ...]) -> dict[str, Any]:
    if access and invite:
        raise click.UsageError("--invite goes with neither --public nor --private")
    if invite:
        targets = [{"target_type": "member", "target_id": user_id} for user_id in invite]
        return {"permission_mode": "public_to", "invocation_targets": targets}
    if access == "public":
        return {"permission_mode": "public_to", "invocation_targets": [{"target_type": "workspace"}]}
    return {"permission_mode": "private"} if access == "private" else {}


def _object_in(file: Path) -> dict[str, Any]:
    """Nothing of the file is repeated: MCP servers' headers and environments hold secrets, and so does a gateway's."""
    raw = sys.stdin.buffer.read() if str(file) == "-" else file.read_bytes()
    try:
        value = json.loads(text_of(raw, str(file)))
    except ValueError as error:
        raise click.UsageError(f"{file} is not JSON ({type(error).__name__})") from None
    if not isinstance(value, dict):
        raise click.UsageError(f"{file} must hold a JSON object")
    return value
