"""`callboard agent env list|get|set|unset`: the secrets an agent's runs are given.

No value is ever an argument: what is on a command line is in the shell's history and in everybody's list of processes.
"""

from __future__ import annotations

import json
import re
import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from callboard_daemon.cli.agent_options import FILE
from callboard_daemon.cli.context import Cli, output_option, pass_cli
from callboard_daemon.cli.output import note, print_json, print_table, working
from callboard_daemon.cli.typed import body_from, text_of
from callboard_daemon.errors import Conflict, Invalid, NotFound
from callboard_wire.agents import AgentEnv, PutAgentEnv
from callboard_wire.environment import KEEP

if TYPE_CHECKING:
    from callboard_daemon.cli.api import Api

TRIES: Final = 5
_KEY: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_LINE: Final = re.compile(r"(?:export\s+)?([A-Za-z_][A-Za-z0-9_]*)=(.*)", re.DOTALL)


@click.group()
def env() -> None:
    """Handle the secret environment of an agent's runs."""


@env.command("list")
@click.argument("agent", metavar="NAME|ID")
@output_option
@pass_cli
def list_env(cli: Cli, agent: str) -> None:
    """List the names of the variables, without their values."""
    with cli.connect() as api, working(cli, "asking the server"):
        masked = api.agent_env(api.agent(agent).id, masked=True)
    names = sorted(masked.custom_env)
    if cli.json:
        print_json(names)
        return
    print_table(["variable"], [[name] for name in names], empty="No variables.")


@env.command("get")
@click.argument("agent", metavar="NAME|ID")
@click.argument("key", required=False)
@output_option
@pass_cli
def get_env(cli: Cli, agent: str, key: str | None) -> None:
    """Show the values, or KEY's alone and as it is. The audit log notes that you looked."""
    cli.human_only("callboard agent env get")
    with cli.connect() as api, working(cli, "asking the server"):
        values = api.agent_env(api.agent(agent).id).custom_env
    if key is not None:
        if key not in values:
            raise NotFound(f"{agent} has no variable {_shown(key)}", status=404, code="env_key_not_found")
        values = {key: values[key]}
    if cli.json:
        print_json(values)
    elif key is not None:
        sys.stdout.write(values[key] + ("\n" if sys.stdout.isatty() else ""))
    else:
        for name, value in sorted(values.items()):
            click.echo(f"{name}={shlex.quote(value)}")


@env.command("set")
@click.argument("agent", metavar="NAME|ID")
@click.argument("key", required=False)
@click.option("--file", type=FILE, metavar="FILE", help="KEY's value is what this file holds.")
@click.option("--env-file", type=FILE, metavar="FILE", help="Many at once: KEY=value lines, or a JSON object.")
@output_option
@pass_cli
def set_env(cli: Cli, agent: str, key: str | None, file: Path | None, env_file: Path | None) -> None:
    """Set KEY to what comes on stdin (one line end at its end is dropped), or is typed and not shown. Other variables
    stay as they are.

    echo "$SECRET" | callboard agent env set scout API_KEY
    """
    cli.human_only("callboard agent env set")
    if (key is None) == (env_file is None) or (file and env_file):
        raise click.UsageError("give KEY, or --env-file with many")
    wanted = _many(env_file) if env_file is not None else {_checked(key or ""): _value(file)}
    if not wanted:
        raise click.UsageError(f"{env_file} sets no variable")
    _change(cli, agent, lambda known: {**known, **wanted})
    note(f"Set {', '.join(sorted(wanted))}. Runs that start from now on have it.")


@env.command("unset")
@click.argument("agent", metavar="NAME|ID")
@click.argument("keys", metavar="KEY…", nargs=-1, required=True)
@output_option
@pass_cli
def unset_env(cli: Cli, agent: str, keys: tuple[str, ...]) -> None:
    """Take variables away."""
    cli.human_only("callboard agent env unset")

    def without(known: dict[str, str]) -> dict[str, str]:
        for key in keys:
            if key not in known:
                raise NotFound(f"{agent} has no variable {_shown(key)}", status=404, code="env_key_not_found")
        return {name: value for name, value in known.items() if name not in keys}

    _change(cli, agent, without)
    note(f"Took {', '.join(sorted(keys))} away.")


def _change(cli: Cli, agent: str, change: Callable[[dict[str, str]], dict[str, str]]) -> None:
    """Apply `change` to what is there, whose values are masked and stay. When somebody else was faster it is applied to
    what they left."""
    with cli.connect() as api, working(cli, "changing the environment"):
        agent_id = api.agent(agent).id
        for left in reversed(range(TRIES)):
            known = api.agent_env(agent_id, masked=True)
            try:
                after = _put(api, agent_id, change(known.custom_env), known)
                break
            except Conflict as conflict:
                if conflict.code != "env_changed" or not left:
                    raise
    if cli.json:
        print_json({"names": sorted(after.custom_env), "version": after.version})


def _put(api: Api, agent_id: str, values: dict[str, str], known: AgentEnv) -> AgentEnv:
    return api.put_agent_env(agent_id, body_from(PutAgentEnv, custom_env=values, version=known.version))


def _checked(key: str) -> str:
    if not _KEY.fullmatch(key):
        hint = "A value is never an argument: pipe it in." if "=" in key else "Letters, digits and underscores, please."
        raise Invalid("that is not the name of a variable", status=400, code="env_key_refused", hint=hint)
    return key


def _shown(key: str) -> str:
    """A name as it may be repeated; what has a form of its own may be a value in the wrong place."""
    return key if _KEY.fullmatch(key) else "of that name"


def _value(file: Path | None) -> str:
    if file is not None:
        text = text_of(file.read_bytes(), str(file))
    elif sys.stdin.isatty():
        text = click.prompt("Value", hide_input=True, err=True, default="", show_default=False)
    else:
        text = text_of(sys.stdin.buffer.read(), "stdin")
    value = text.removesuffix("\n").removesuffix("\r")
    if value == KEEP:
        raise click.UsageError(f"{KEEP} stands for a value that stays as it is; it cannot be one")
    return value


def _many(file: Path) -> dict[str, str]:
    """The variables in a file. Raises `click.UsageError` that names a line's number and nothing of the line."""
    text = text_of(file.read_bytes(), str(file))
    if text.lstrip().startswith("{"):
        return _of_json(text, file)
    values = {}
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        found = _LINE.fullmatch(line.strip())
        if found is None:
            raise click.UsageError(f"{file}, line {number}: that is not KEY=value")
        values[found[1]] = _unquoted(found[2], f"{file}, line {number}")
    return values


def _of_json(text: str, file: Path) -> dict[str, str]:
    try:
        values = json.loads(text)
    except ValueError:
        raise click.UsageError(f"{file} is not JSON") from None
    if not all(isinstance(value, str) for value in values.values()):
        raise click.UsageError(f"{file}: every value must be a text")
    return {_checked(key): value for key, value in values.items()}


def _unquoted(value: str, where: str) -> str:
    """A value in quotes is read as a shell reads it; one without is taken as it is, spaces, ``#`` and all."""
    value = value.strip()
    if value[:1] not in ("'", '"'):
        return value
    try:
        parts = shlex.split(value)
    except ValueError:
        raise click.UsageError(f"{where}: a quote is not closed") from None
    return "".join(parts)
