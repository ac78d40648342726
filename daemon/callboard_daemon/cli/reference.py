"""docs/reference/cli.md and docs/reference/settings.md, from the commands and the settings themselves.

python -m callboard_daemon.cli.reference docs/reference
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import click

from callboard_daemon.cli.main import EXIT_CODES, root
from callboard_daemon.settings import PROVIDER_KEYS, SETTINGS

_NOTE: Final = "<!-- written by `python -m callboard_daemon.cli.reference`; a test compares -->"
_WIDTH: Final = 100


def cli_reference() -> str:
    """The page on the command line: every command with its help, and the exit codes."""
    parts = [f"# Command line\n\n{_NOTE}", _help(root, "callboard", None)]
    parts += [f"## {path}\n\n{_help(command, path, parent)}" for path, command, parent in _commands()]
    codes = "\n".join(f"| {code} | {meaning} |" for code, meaning in EXIT_CODES.items())
    parts.insert(
        2,
        f"## Exit codes\n\n| code | means |\n| --- | --- |\n{codes}\n\n"
        "With `--output json` stdout holds one JSON document and nothing else; confirmations, progress and errors go\n"
        "to stderr. `NO_COLOR` is honoured. `python -m callboard_daemon` is the same program.\n\n"
        "Inside a task the commands act as the task's agent: the token comes from `MULTICA_TOKEN` alone, the server\n"
        "from `MULTICA_SERVER_URL`, your own login is never read, and commands for people (`login`, `logout`,\n"
        "`token`, `daemon`, `up`, `demo`) are refused.",
    )
    return "\n\n".join(parts) + "\n"


def settings_reference() -> str:
    """The page on settings: the table, providers, the config file."""
    rows = "\n".join(
        f"| `{each.variable}` | `{each.name}` | {f'`{each.default}`' if each.default else '–'} | {each.help} |"
        for each in SETTINGS
    )
    keys = ", ".join(f"`CALLBOARD_<PROVIDER>_{key.upper()}`" for key in PROVIDER_KEYS)
    return f"""# Settings

{_NOTE}

An option of the command comes before the environment, the environment before the config file, the config file before
the default. A value that cannot be read stops the start and is named. Durations: `90` or `90s`, `5m`, `1.5h`, `2d`,
`1d12h`; 0 means none where a limit is meant.

| variable | key in the config file | default | what it does |
| --- | --- | --- | --- |
{rows}

Two variables choose where everything lives: `CALLBOARD_PROFILE` (like `--profile`: another login and another daemon)
and `CALLBOARD_HOME` (one folder for config, state, logs and tasks, instead of the platform's folders).

## Providers

{keys}, or a table `[provider.<name>]` with the keys `path`, `model` and `args`: where the CLI is (a miss is not
searched for elsewhere), the model for agents that name none, and arguments that go before an agent's own.

## Runtime profiles

`runtime-profiles.toml` beside the config file is written by `callboard runtime profile path`: which of other members'
runtime profiles this machine runs, and where a profile's command is when it is not on PATH. It is read again at every
look, and the server never sees it.

## The config file

`config.toml` (or `config.json`) in the profile's config folder. An unknown key is refused. The table `[env]` is added
to the daemon's environment and to every agent's: the place for proxies when a service manager starts the daemon.

```toml
max_concurrent_tasks = 4
drain_timeout = "2m"

[provider.claude]
path = "/opt/claude/bin/claude"
args = ["--verbose"]

[env]
HTTPS_PROXY = "http://proxy.example.com:3128"
NO_PROXY = "localhost,127.0.0.1"
```
"""


def write(folder: Path) -> None:
    (folder / "cli.md").write_text(cli_reference(), encoding="utf-8")
    (folder / "settings.md").write_text(settings_reference(), encoding="utf-8")


def _commands() -> Iterator[tuple[str, click.Command, click.Context]]:
    context = click.Context(root, info_name="callboard")
    for name in root.list_commands(context):
        command = root.get_command(context, name)
        assert command is not None, "listed commands exist"
        yield from _with_verbs(f"callboard {name}", command, context)


def _with_verbs(
    path: str, command: click.Command, parent: click.Context
) -> Iterator[tuple[str, click.Command, click.Context]]:
    yield path, command, parent
    if isinstance(command, click.Group):
        inner = click.Context(command, info_name=path.rpartition(" ")[2], parent=parent)
        for verb, sub in command.commands.items():
            yield from _with_verbs(f"{path} {verb}", sub, inner)


def _help(command: click.Command, path: str, parent: click.Context | None) -> str:
    context = click.Context(
        command,
        info_name=path.rpartition(" ")[2],
        parent=parent,
        max_content_width=_WIDTH,
        terminal_width=_WIDTH,
        help_option_names=["-h", "--help"],
    )
    return f"```text\n{command.get_help(context)}\n```"


if __name__ == "__main__":
    write(Path(sys.argv[1]))
