"""Managed MCP servers for cursor-agent, which has no flag for them.

The servers go into `<project>/.cursor/mcp.json`, where the project is the nearest folder above the workdir with a
`.git`. Cursor starts a server only if the user has approved exactly that entry, and remembers approvals per project in
its data folder; a data folder of the run's own therefore holds our servers' approvals and nobody else's, and the
user's global servers do not start.

| path | holds |
| --- | --- |
| `<project>/.cursor/mcp.json` | the servers; 0600 and gone after the run |
| `<data>/projects/<slug>/mcp-approvals.json` | one word per server: its name and a hash of its entry |
| `<data>/projects/<slug>/.workspace-trusted` | that this folder may be worked in |
| `<data>/projects/<slug>/mcp-auth.json` | a link to the user's tokens, where `CURSOR_MCP_AUTH_SOURCE` names them |
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import PurePosixPath
from typing import Any

from callboard_adapters.base import FileLink, FileWrite
from callboard_adapters.errors import LaunchRefused

AUTH_SOURCE = "CURSOR_MCP_AUTH_SOURCE"
_STDIO = ("type", "command", "args", "env", "cwd")
_REMOTE = ("type", "url", "headers")


def git_marks(cwd: str) -> list[str]:
    """The files that show a project's root above `cwd`: `.git/HEAD` of a repository, `.git` of a worktree."""
    at = PurePosixPath(cwd)
    return [f"{folder}/{mark}" for folder in (at, *at.parents) for mark in (".git/HEAD", ".git")]


def project_root(cwd: str, marks: Sequence[str]) -> str:
    """The nearest folder with one of the `marks` that were found, else `cwd`."""
    roots = [m.removesuffix("/HEAD").removesuffix("/.git") for m in marks]
    return max(roots, key=len, default=cwd)


def servers_file(root: str, config: Mapping[str, Any]) -> FileWrite:
    body = json.dumps({"mcpServers": config.get("mcpServers") or {}}, ensure_ascii=False, indent=2)
    return FileWrite(f"{root}/.cursor/mcp.json", body.encode())


def data_files(data: str, root: str, config: Mapping[str, Any], started_at: float) -> list[FileWrite]:
    """What the run's own data folder must hold. `started_at` in seconds since 1970."""
    folder = _folder(data, root)
    approvals = [approval(root, name, entry) for name, entry in (config.get("mcpServers") or {}).items()]
    trusted = {
        "trustedAt": datetime.fromtimestamp(started_at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "workspacePath": root,
        "trustMethod": "cli",
    }
    return [
        FileWrite(f"{folder}/mcp-approvals.json", json.dumps(approvals).encode()),
        FileWrite(f"{folder}/.workspace-trusted", json.dumps(trusted, ensure_ascii=False).encode()),
    ]


def auth_link(data: str, root: str, source: str) -> list[FileLink]:
    """The user's MCP tokens, from a file or from the folder that holds `mcp-auth.json`. Raises `LaunchRefused`."""
    if not source:
        return []
    if not source.startswith("/"):
        raise LaunchRefused(f"{AUTH_SOURCE} must be an absolute path", provider="cursor")
    target = source if source.endswith(".json") else f"{source.rstrip('/')}/mcp-auth.json"
    return [FileLink(f"{_folder(data, root)}/mcp-auth.json", target)]


def approval(root: str, name: str, entry: Mapping[str, Any]) -> str:
    """`<name>-<16 hex digits>`: the hash of the project and the entry, written as JavaScript would write them."""
    keys = _REMOTE if "url" in entry else _STDIO
    normal = {key: entry[key] for key in keys if key in entry}
    text = json.dumps({"path": root, "server": normal}, ensure_ascii=False, separators=(",", ":"))
    return f"{name}-{sha256(text.encode('utf-8', 'surrogatepass')).hexdigest()[:16]}"


def _folder(data: str, root: str) -> str:
    return f"{data}/projects/{re.sub(r'[^A-Za-z0-9]+', '-', root).strip('-')}"
