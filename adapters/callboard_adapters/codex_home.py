"""A CODEX_HOME of the run's own.

Codex keeps everything in one folder: login, settings, memories, skills, all conversations. In the user's own folder
tasks leak into each other (memories, sessions), start slowly (an index over thousands of sessions) and cannot have MCP
servers of their own without secrets in the command line. So each run gets a folder in which

| entry | is |
| --- | --- |
| `auth.json` | a **link** to the user's: refresh tokens work once, a copy would log the user out |
| `config.toml` | the user's, with our settings over it; 0600 and gone after the run: it may hold secrets |
| `skills/<name>` | links to the user's skills |
| `AGENTS.md`, `instructions.md`, `config.json`, `models_cache.json` | copies |
| `sessions` | the env root's own (`CALLBOARD_ENV_ROOT`); without one a link to the user's, so that resume finds them |
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import PurePath
from typing import Any

import tomli_w

from callboard_adapters.base import FileContent, FileLink, FileWrite, ReadFiles, Version
from callboard_adapters.errors import LaunchRefused
from callboard_adapters.process.environment import RUN_MARKER

BEGIN = "# >>> callboard: MCP servers of this run"
END = "# <<< callboard"
_COPIED = ("AGENTS.md", "AGENTS.override.md", "instructions.md", "config.json", "models_cache.json")
_FILE_SETTINGS = ("model_catalog_json", "model_instructions_file", "experimental_instructions_file")
_MAX_FILE = 8 << 20
_SERVER_NAME = re.compile(r"[A-Za-z0-9_-]+")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_SECRET = re.compile(r"KEY|SECRET|TOKEN|PASSWORD", re.IGNORECASE)
_AGENTS_TABLE = (
    0,
    171,
    0,
)  # seen to call `features.multi_agent` deprecated; older ones take `agents.enabled` for a role
_SELECTORS = ("tools", "prompts", "resources")  # the product's own keys in a stored MCP entry


def look_at(shared: str) -> Sequence[ReadFiles]:
    """What must be known of the user's own CODEX_HOME before the launch. `shared` is its path."""
    quoted = shared.replace("[", "[[]").replace("*", "[*]").replace("?", "[?]")
    files = [f"{shared}/{name}" for name in ("config.toml", *_COPIED)]
    return (
        ReadFiles("home", files, max_files=len(files), max_bytes=_MAX_FILE),
        ReadFiles("home", [f"{shared}/auth.json", f"{quoted}/skills/*/SKILL.md"], max_files=500, max_bytes=0),
    )


class Home:
    """The user's folder as it was found, and the run's folder made from it."""

    def __init__(self, shared: str, path: str, *, own_sessions: bool) -> None:
        self.shared = shared
        self.path = path
        self._own_sessions = own_sessions
        self._found: dict[str, bytes] = {}

    def found(self, files: Iterable[FileContent]) -> None:
        """Take what `look_at` asked for."""
        for file in files:
            if file.path.startswith(f"{self.shared}/"):
                self._found[file.path[len(self.shared) + 1 :]] = file.data

    def files(
        self, *, mcp: Mapping[str, Any] | None, variables: Iterable[str], sandbox: str, version: Version | None
    ) -> list[FileWrite]:
        """What to write. `mcp` is `ExecOptions.mcp_config`, `variables` the names the agent's shell may see.

        Raises `LaunchRefused` for a configuration that codex could not read: better here than as a hang in its start.
        """
        config = compose(self._found.get("config.toml", b""), self.shared, mcp, variables, sandbox, version)
        copies = [FileWrite(f"{self.path}/{name}", self._found[name]) for name in _COPIED if name in self._found]
        return [FileWrite(f"{self.path}/config.toml", config), *copies]

    def links(self) -> list[FileLink]:
        """What to link to the user's folder."""
        names = sorted(PurePath(name).parts[1] for name in self._found if name.startswith("skills/"))
        skills = [FileLink(f"{self.path}/skills/{name}", f"{self.shared}/skills/{name}") for name in names]
        login = FileLink(f"{self.path}/auth.json", f"{self.shared}/auth.json")
        sessions = FileLink(f"{self.path}/sessions", f"{self.shared}/sessions", directory=True)
        return [
            *skills,
            *([login] if "auth.json" in self._found else []),
            *([] if self._own_sessions else [sessions]),
        ]

    def secret_variables(self) -> set[str]:
        """The variables in which the user's configuration expects the model providers' keys."""
        config = _parse(self._found.get("config.toml", b""))
        providers = config.get("model_providers")
        entries = providers.values() if isinstance(providers, dict) else ()
        return {str(entry["env_key"]) for entry in entries if isinstance(entry, dict) and entry.get("env_key")}


def shell_variables(env: Mapping[str, str], login: Iterable[str], *, chosen: bool) -> list[str]:
    """The names the agent's own commands may see, sorted.

    Codex by itself hides every name with KEY, SECRET or TOKEN in it, the task's own token too, so the list is exact.
    The model's keys (`login`) stay hidden. `chosen`: somebody picked this environment for the task; if it is just
    whatever the caller had, other secret-looking names stay hidden as well.
    """
    hidden = set(login)
    names = {RUN_MARKER, "PWD"}
    for name in env:
        secret = not chosen and _SECRET.search(name) and not name.startswith("MULTICA_")
        if _VARIABLE.fullmatch(name) and name not in hidden and not secret:
            names.add(name)
    return sorted(names)


def compose(
    user: bytes,
    shared: str,
    mcp: Mapping[str, Any] | None,
    variables: Iterable[str],
    sandbox: str,
    version: Version | None = None,
) -> bytes:
    """The run's `config.toml`: the user's with ours over it. Raises `LaunchRefused` when either cannot be read."""
    config = _parse(user)
    managed = None if mcp is None else mcp_servers(mcp)
    for name in _FILE_SETTINGS:  # relative to the folder they are read from
        value = config.get(name)
        if isinstance(value, str) and value and not PurePath(value).is_absolute() and not value.startswith("~"):
            config[name] = f"{shared}/{value}"
    skills = config.get("skills")
    if isinstance(skills, dict):  # the desktop app writes entries without a path, and then no thread starts
        skills.pop("config", None)
    profiles = config.get("profiles")
    for scope in [config, *(profiles.values() if isinstance(profiles, dict) else ())]:
        if isinstance(scope, dict):
            scope.pop("shell_environment_policy", None)
            if managed is not None:
                scope.pop("mcp_servers", None)
    config["approval_policy"] = "never"
    config["sandbox_mode"] = sandbox
    config["features"] = {**_table(config, "features"), "memories": False}
    _no_agents(config, version)
    config["memories"] = {**_table(config, "memories"), "generate_memories": False, "use_memories": False}
    policy = {"inherit": "all", "ignore_default_excludes": True, "include_only": sorted(variables)}
    config["shell_environment_policy"] = policy
    text = tomli_w.dumps(config)
    if managed is not None:
        servers = tomli_w.dumps({"mcp_servers": managed}) if managed else ""
        text = f"{text}\n{BEGIN}\n{servers}{END}\n"
    return text.encode()


def _no_agents(config: dict[str, Any], version: Version | None) -> None:
    """Without sub-agents: a parent finishes before its children, and what they do is lost with the process."""
    features = config["features"]
    if version is None or version < _AGENTS_TABLE:
        features["multi_agent"] = False
        return
    features.pop("multi_agent", None)
    features["multi_agent_v2"] = False
    config["agents"] = {**_table(config, "agents"), "enabled": False}


def mcp_servers(mcp: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """`{"mcpServers": {...}}` as codex's `mcp_servers` tables, sorted. Raises `LaunchRefused`, never naming a value."""
    entries = mcp.get("mcpServers") or {}
    if not isinstance(entries, dict):
        raise _refused("mcpServers is not an object")
    return {name: _server(name, entries[name]) for name in sorted(entries)}


def _server(name: str, entry: Any) -> dict[str, Any]:
    if not _SERVER_NAME.fullmatch(name):
        raise _refused(f"the MCP server name {name!r} may hold only letters, digits, - and _")
    if not isinstance(entry, dict) or not (entry.get("command") or entry.get("url")):
        raise _refused(f"the MCP server {name} has neither a command nor a url")
    server = {key: value for key, value in entry.items() if key not in _SELECTORS}
    kind = server.pop("type", None)
    if kind == "http" or not server.get("command"):
        headers = server.pop("headers", None)
        if headers and "http_headers" not in server:
            server["http_headers"] = headers
    if _has_null(server):
        raise _refused(f"the MCP server {name} has a null value")
    return server


def _has_null(value: Any) -> bool:
    if isinstance(value, dict):
        return any(map(_has_null, value.values()))
    return any(map(_has_null, value)) if isinstance(value, list) else value is None


def _parse(text: bytes) -> dict[str, Any]:
    try:
        return tomllib.loads(text.decode())
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise _refused(f"the user's codex config.toml cannot be read: {error}") from error


def _table(config: Mapping[str, Any], name: str) -> dict[str, Any]:
    value = config.get(name)
    return value if isinstance(value, dict) else {}


def _refused(text: str) -> LaunchRefused:
    return LaunchRefused(text, provider="codex")
