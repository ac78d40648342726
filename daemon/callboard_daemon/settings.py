"""Every setting of the daemon and the command line: flag > environment > config file > default.

`SETTINGS` is the one table; docs/reference/settings.md is printed from it. A value that cannot be read stops the
start and names where it came from: a daemon that runs for weeks on a default nobody wanted is worse than none.
"""

from __future__ import annotations

import json
import shlex
import socket
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from callboard_daemon.durations import parse_duration
from callboard_daemon.errors import SettingError
from callboard_daemon.paths import Paths

PREFIX: Final = "CALLBOARD_"
_TRUE: Final = frozenset({"true", "1", "yes", "on"})
_FALSE: Final = frozenset({"false", "0", "no", "off"})


def pasted(text: str) -> str:
    """A token without what came with it: in a header a line end would be HTTP's error and no word about the token."""
    return "".join(c for c in text if c.isascii() and c.isprintable() and c != " ")


def server_url(text: str) -> str:
    """`ws`/`wss` become `http`/`https`; a `/ws` path, query, fragment and trailing slash go. "" stays ""."""
    if not text.strip():
        return ""
    parts = urlsplit(text.strip())
    scheme = {"ws": "http", "wss": "https"}.get(parts.scheme, parts.scheme)
    if scheme not in ("http", "https") or not parts.netloc:
        raise ValueError(f"{text!r} is not a server address such as https://callboard.example.com")
    if parts.username or parts.password:
        raise ValueError("a server address must not carry a password")
    return f"{scheme}://{parts.netloc}{parts.path.rstrip('/').removesuffix('/ws')}".rstrip("/")


def boolean(text: str) -> bool:
    word = text.strip().lower()
    if word in _TRUE | _FALSE:
        return word in _TRUE
    raise ValueError(f"{text!r} is neither true nor false")


def size(text: str) -> int:
    """Bytes: `65536`, `64KB`, `64MB`, `1GB` (powers of 1024)."""
    compact = text.strip().upper().removesuffix("B")
    factor = {"K": 1024, "M": 1024**2, "G": 1024**3}.get(compact[-1:], 1)
    number = compact.rstrip("KMG")
    if not number.isdigit() or len(compact) - len(number) > 1:
        raise ValueError(f"{text!r} is not a size such as 64MB")
    return int(number) * factor


def positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise ValueError("must be 1 or more")
    return number


def optional_duration(text: str) -> float | None:
    """None for an empty text: the provider's own default applies."""
    return parse_duration(text) if text.strip() else None


def names(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())


def absolute(text: str) -> Path | None:
    if not text.strip():
        return None
    path = Path(text).expanduser()
    if not path.is_absolute():
        raise ValueError(f"{text!r} is not an absolute path")
    return path


def _level(text: str) -> str:
    word = text.strip().lower()
    if word not in ("debug", "info", "warning", "error"):
        raise ValueError(f"{text!r} is not debug, info, warning or error")
    return word


@dataclass(frozen=True, slots=True)
class Setting:
    """`name` is the field and the key in the config file; the variable is `CALLBOARD_` plus it in capitals."""

    name: str
    parse: Callable[[str], Any]
    default: str
    help: str
    secret: bool = False

    @property
    def variable(self) -> str:
        return PREFIX + self.name.upper()


SETTINGS: Final = (
    Setting("server_url", server_url, "", "Address of the control plane. Default: the one you logged in to."),
    Setting("token", pasted, "", "A person's token (`mul_…`), instead of the one `login` stored.", secret=True),
    Setting("http_timeout", parse_duration, "30s", "How long one request to the control plane may take."),
    Setting("workspaces_root", absolute, "", "Where tasks get their folders. Default: `~/callboard_workspaces`."),
    Setting("device_name", str, "", "What this machine is called in lists. Default: its host name."),
    Setting("max_concurrent_tasks", positive, "20", "How many tasks may run on this machine at once."),
    Setting("providers", names, "", "Offer only these providers, and runtime profiles; comma separated. Default: all."),
    Setting("login_shell", boolean, "true", "Ask your login shell where a command is that PATH does not have."),
    Setting("claim_wait", parse_duration, "20s", "How long one claim is held by the server (long poll; at most 20s)."),
    Setting("cancel_poll", parse_duration, "1.5s", "How often a silent run asks whether it was cancelled."),
    Setting("prepare_timeout", parse_duration, "5m", "How long a task's folder may take to be made ready."),
    Setting("drain_timeout", parse_duration, "30s", "How long running tasks may go on once the daemon is told to end."),
    Setting("agent_timeout", parse_duration, "0", "Wall-clock limit of a run; 0 is none."),
    Setting(
        "idle_watchdog", optional_duration, "", "End a run silent for so long, no tool running; 0 never. Default 30m."
    ),
    Setting("tool_watchdog", optional_duration, "", "End a run whose tool is silent for so long; 0 never. Default 2h."),
    Setting("spool_limit", size, "64MB", "Messages of one run kept on disk while the server cannot be reached."),
    Setting("pass_env", names, "", "More variables of the daemon's environment for agents: `NAME` or `PREFIX_*`."),
    Setting("log_level", _level, "info", "debug, info, warning or error."),
)
PROVIDER_KEYS: Final = ("path", "model", "args")


@dataclass(frozen=True, slots=True)
class ProviderSettings:
    """One provider on this machine: `path` overrides discovery, `model` is for agents without one, `args` go before
    an agent's own."""

    path: str = ""
    model: str = ""
    args: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """All values, read and typed. Durations in seconds, sizes in bytes. `env` is the config file's `[env]` table: it
    reaches the daemon's own requests (proxies) and every agent."""

    server_url: str
    token: str = field(repr=False)
    http_timeout: float
    workspaces_root: Path | None
    device_name: str
    max_concurrent_tasks: int
    providers: tuple[str, ...]
    login_shell: bool
    claim_wait: float
    cancel_poll: float
    prepare_timeout: float
    drain_timeout: float
    agent_timeout: float
    idle_watchdog: float | None
    tool_watchdog: float | None
    spool_limit: int
    pass_env: tuple[str, ...]
    log_level: str
    provider: Mapping[str, ProviderSettings] = field(default_factory=dict)
    env: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def device(self) -> str:
        return self.device_name or socket.gethostname() or "local-machine"

    def of_provider(self, name: str) -> ProviderSettings:
        return self.provider.get(name, ProviderSettings())


def load_settings(paths: Paths, environ: Mapping[str, str], flags: Mapping[str, str] | None = None) -> Settings:
    """Read the profile's config file and the environment. `flags` are option texts by setting name.

    Raises `SettingError` naming the variable, key or option that cannot be read.
    """
    config = read_config(paths)
    given = flags or {}
    values: dict[str, Any] = {}
    for setting in SETTINGS:
        if setting.name in given:
            text, source = given[setting.name], "--" + setting.name.replace("_", "-")
        elif setting.variable in environ:
            text, source = environ[setting.variable], setting.variable
        elif setting.name in config:
            text, source = _text(config[setting.name]), f"`{setting.name}` in {_config_file(paths)}"
        else:
            text, source = setting.default, setting.name
        values[setting.name] = _parse(setting, text, source)
    return Settings(**values, provider=_providers(config, environ), env=_env(config, paths))


def read_config(paths: Paths) -> dict[str, Any]:
    """The config file's content, {} when there is none. Raises `SettingError` for a file that cannot be read or that
    holds a key nobody knows: a typo must not pass as a default."""
    path = _config_file(paths)
    try:
        raw = path.read_bytes()
        config = tomllib.loads(raw.decode()) if path.suffix == ".toml" else json.loads(raw)
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise SettingError(f"cannot read the config file {path}: {error}") from error
    if not isinstance(config, dict):
        raise SettingError(f"{path} must hold a table of settings")
    known = {setting.name for setting in SETTINGS} | {"provider", "env"}
    if unknown := sorted(set(config) - known):
        raise SettingError(f"unknown key {unknown[0]!r} in {path}", hint=f"Known keys: {', '.join(sorted(known))}.")
    return config


def _config_file(paths: Paths) -> Path:
    toml, as_json = paths.config_files
    return as_json if as_json.exists() and not toml.exists() else toml


def _parse(setting: Setting, text: str, source: str) -> Any:
    try:
        return setting.parse(text)
    except ValueError as error:
        detail = "the value is not usable" if setting.secret else str(error)
        raise SettingError(f"{source}: {detail}") from None


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return ",".join(map(str, value)) if isinstance(value, list) else str(value)


def _table(config: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    table = config.get(name, {})
    if not isinstance(table, dict):
        raise SettingError(f"`{name}` in the config file must be a table")
    return table


def _env(config: Mapping[str, Any], paths: Paths) -> dict[str, str]:
    table = _table(config, "env")
    if bad := [key for key, value in table.items() if not isinstance(value, str)]:
        raise SettingError(f"`env.{bad[0]}` in {_config_file(paths)} must be a text")
    return dict(table)


def _providers(config: Mapping[str, Any], environ: Mapping[str, str]) -> dict[str, ProviderSettings]:
    """`[provider.<name>]` tables under the variables `CALLBOARD_<NAME>_PATH`, `_MODEL` and `_ARGS`."""
    found: dict[str, dict[str, str]] = {}
    for name, table in _table(config, "provider").items():
        if not isinstance(table, dict) or (unknown := set(table) - set(PROVIDER_KEYS)):
            what = f"unknown key {sorted(unknown)[0]!r}" if isinstance(table, dict) else "not a table"
            raise SettingError(f"`provider.{name}` in the config file: {what}")
        found[name] = {k: shlex.join(v) if isinstance(v, list) else str(v) for k, v in table.items()}
    reserved = {setting.variable for setting in SETTINGS}
    for variable, text in environ.items():
        stem, _, key = variable.removeprefix(PREFIX).rpartition("_")
        if variable.startswith(PREFIX) and stem and key.lower() in PROVIDER_KEYS and variable not in reserved:
            found.setdefault(stem.lower(), {})[key.lower()] = text
    return {name: _provider(name, keys) for name, keys in found.items()}


def _provider(name: str, keys: Mapping[str, str]) -> ProviderSettings:
    try:
        args = tuple(shlex.split(keys.get("args", "")))
    except ValueError as error:
        raise SettingError(f"{PREFIX}{name.upper()}_ARGS: {error}") from None
    return ProviderSettings(path=keys.get("path", ""), model=keys.get("model", ""), args=args)
