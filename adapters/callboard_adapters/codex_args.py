"""Codex's command line: which of people's own arguments may stay.

Codex takes any setting as `-c key=value`, so blocking flags is not enough: a setting that this run owns (its MCP
servers, what its shell may see) must not be overridden from an argument either, in any spelling clap accepts
(`-c k=v`, `-ck=v`, `-c=k=v`, `--config=k=v`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from callboard_adapters.capabilities import ArgMode
from callboard_adapters.messages import Message, MessageType

BLOCKED = {
    "--listen": ArgMode.VALUE,
    "--stdio": ArgMode.STANDALONE,
    "--startup-sign-out": ArgMode.STANDALONE,
    "--print-startup-config": ArgMode.STANDALONE,
    "--help": ArgMode.STANDALONE,
    "-h": ArgMode.STANDALONE,
    "--version": ArgMode.STANDALONE,
    "-V": ArgMode.STANDALONE,
    # as words these are subcommands of `app-server` that serve nobody
    "daemon": ArgMode.STANDALONE,
    "proxy": ArgMode.STANDALONE,
    "generate-ts": ArgMode.STANDALONE,
    "generate-json-schema": ArgMode.STANDALONE,
    "help": ArgMode.STANDALONE,
}
VALUES = frozenset({"-c", "--config", "--enable", "--disable", "--startup-client-info", "--code-mode-host"})
_CONFIG, _SWITCHES = ("-c", "--config"), ("--enable", "--disable")


def owned_settings(tokens: Sequence[str], *, mcp: bool, fast: bool) -> tuple[list[str], list[Message]]:
    """`tokens` without the settings this run owns, and a warning for each that went. Values are never repeated.

    `mcp`: the MCP servers are managed. `fast`: the fast tier was asked for and must not be switched off.
    """
    kept: list[str] = []
    notices: list[Message] = []
    for words, flag, value in _settings(tokens):
        key = _key(value) if flag in _CONFIG else f"features.{value.strip()}"
        if flag and _is_owned(key, mcp=mcp, fast=fast):
            text = f"dropped {flag} {key} from the arguments: this run sets it itself"
            notices.append(Message(MessageType.LOG, text, level="warn"))
        else:
            kept += words
    return kept, notices


def _settings(tokens: Sequence[str]) -> Iterator[tuple[list[str], str, str]]:
    """(its tokens, flag, value) for each setting; ([token], "", "") for everything else."""
    i = 0
    while i < len(tokens):
        token = tokens[i]
        if token in VALUES and i + 1 < len(tokens):
            yield [token, tokens[i + 1]], token, tokens[i + 1]
            i += 2
            continue
        flag = next((f for f in (*_CONFIG, *_SWITCHES) if f.startswith("--") and token.startswith(f"{f}=")), "")
        if flag:
            yield [token], flag, token[len(flag) + 1 :]
        elif token.startswith("-c") and len(token) > 2:
            yield [token], "-c", token[2:].removeprefix("=")
        else:
            yield [token], "", ""
        i += 1


def _key(setting: str) -> str:
    """`mcp_servers."a".command="x"` → `mcp_servers.a.command`."""
    return setting.partition("=")[0].replace('"', "").replace("'", "").strip()


def _is_owned(key: str, *, mcp: bool, fast: bool) -> bool:
    parts = [part.strip() for part in key.split(".")]
    if parts[0] == "profiles" and len(parts) > 2:
        parts = parts[2:]
    if parts[0] == "shell_environment_policy" or (mcp and parts[0] == "mcp_servers"):
        return True
    return fast and parts[:2] == ["features", "fast_mode"]
