"""How each CLI is pointed at the loopback model: its environment, and the files in a home of its own.

Every run gets a fresh HOME and an environment we chose, so nothing of the machine's own logins or settings is read,
and nothing leaves the machine. The keys are throw-away words: the loopback model takes any.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.fakes.model_server import MODEL, ModelServer
from tests.system.real_cli.install import InstalledCli

KEY = "loopback-key"
MARK_VARIABLE = "CALLBOARD_REAL_CLI_MARK"
CONTEXT_WINDOW, ANSWER_TOKENS = 200_000, 32_000
BUDGET = {"contextWindow": CONTEXT_WINDOW, "maxTokens": ANSWER_TOKENS}


@dataclass(frozen=True)
class World:
    """Where one CLI runs: `env` is its whole environment, `model` what to ask the adapter for (None: its default)."""

    home: Path
    workdir: Path
    server: ModelServer
    cli: InstalledCli
    env: dict[str, str] = field(default_factory=dict)
    model: str | None = None


@dataclass(frozen=True)
class _Pointing:
    """What points a CLI at the model: variables, files under HOME (path → text), a model name."""

    env: dict[str, str] = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)
    model: str | None = None


def make_world(cli: InstalledCli, server: ModelServer, folder: Path) -> World:
    """Make a home and a workdir in `folder` and point the CLI at the server.

    What cannot be pointed (qoder's models are its vendor's) gets an empty home.
    """
    home, workdir = folder / "home", folder / "work"
    home.mkdir()
    workdir.mkdir()
    point = _POINTINGS.get(cli.provider)
    pointing = point(server, workdir) if point else _Pointing()
    for name, text in pointing.files.items():
        target = home / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)
    basic = {"PATH": cli.path(), "HOME": str(home), "LANG": "C.UTF-8", "TERM": "dumb", MARK_VARIABLE: server.mark}
    return World(home, workdir, server, cli, {**basic, **pointing.env}, pointing.model)


def _claude(server: ModelServer, workdir: Path) -> _Pointing:
    return _Pointing(
        env={
            "ANTHROPIC_BASE_URL": server.url,
            "ANTHROPIC_API_KEY": KEY,
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "DISABLE_AUTOUPDATER": "1",
            "IS_SANDBOX": "1",  # else it refuses to skip permissions as root
        }
    )


def _codebuddy(server: ModelServer, workdir: Path) -> _Pointing:
    env = {"CODEBUDDY_BASE_URL": server.openai_url, "CODEBUDDY_API_KEY": KEY, "DISABLE_AUTOUPDATER": "1"}
    return _Pointing(env=env, model=MODEL)


def _opencode(server: ModelServer, workdir: Path) -> _Pointing:
    limits = {"context": CONTEXT_WINDOW, "output": ANSWER_TOKENS}
    provider = {
        "npm": "@ai-sdk/openai-compatible",
        "options": {"baseURL": server.openai_url, "apiKey": KEY},
        "models": {MODEL: {"reasoning": True, "tool_call": True, "limit": limits}},
    }
    name = f"loopback/{MODEL}"
    config = {
        "autoupdate": False,
        "share": "disabled",
        "provider": {"loopback": provider},
        "model": name,
        "small_model": name,
    }
    flags = ("OPENCODE_DISABLE_AUTOUPDATE", "OPENCODE_DISABLE_MODELS_FETCH", "OPENCODE_DISABLE_LSP_DOWNLOAD")
    return _Pointing(
        env=dict.fromkeys(flags, "1"),
        files={".config/opencode/opencode.json": json.dumps(config)},
        model=name,
    )


def _qwen(server: ModelServer, workdir: Path) -> _Pointing:
    env = {
        "OPENAI_BASE_URL": server.openai_url,
        "OPENAI_API_KEY": KEY,
        "OPENAI_MODEL": MODEL,
        "QWEN_CODE_SUPPRESS_YOLO_WARNING": "1",
    }
    # Else a hidden call extracts memories after each answer and its tokens are in the result's usage.
    settings: dict[str, Any] = {
        "memory": {"enableManagedAutoMemory": False},
        "security": {"auth": {"selectedType": "openai"}},
    }
    return _Pointing(env=env, files={".qwen/settings.json": json.dumps(settings)})


def _pi(server: ModelServer, workdir: Path) -> _Pointing:
    cost = {"input": 1, "output": 2, "cacheRead": 0.1, "cacheWrite": 0}
    model = {"id": MODEL, "name": "Loopback", "reasoning": True, "input": ["text"], **BUDGET, "cost": cost}
    provider = {"baseUrl": server.openai_url, "api": "openai-completions", "apiKey": KEY, "models": [model]}
    return _Pointing(
        env={"PI_OFFLINE": "1", "PI_SKIP_VERSION_CHECK": "1"},
        files={".pi/agent/models.json": json.dumps({"providers": {"loopback": provider}})},
        model=f"loopback/{MODEL}",
    )


def _copilot(server: ModelServer, workdir: Path) -> _Pointing:
    return _Pointing(
        env={
            "COPILOT_OFFLINE": "true",
            "COPILOT_AUTO_UPDATE": "false",
            "COPILOT_PROVIDER_BASE_URL": server.openai_url,
            "COPILOT_PROVIDER_API_KEY": KEY,
            "COPILOT_MODEL": MODEL,
        }
    )


def _openclaw(server: ModelServer, workdir: Path) -> _Pointing:
    cost = {"input": 1, "output": 2, "cacheRead": 0.1, "cacheWrite": 0}
    model = {"id": MODEL, "name": "Loopback", "reasoning": True, "input": ["text"], "cost": cost, **BUDGET}
    provider = {"baseUrl": server.openai_url, "apiKey": KEY, "api": "openai-completions", "models": [model]}
    config = {
        "models": {"mode": "replace", "providers": {"loopback": provider}},
        # openclaw works in its configured workspace, not in its cwd.
        "agents": {"defaults": {"model": {"primary": f"loopback/{MODEL}"}, "workspace": str(workdir)}},
    }
    return _Pointing(files={".openclaw/openclaw.json": json.dumps(config)})


def _codex(server: ModelServer, workdir: Path) -> _Pointing:
    config = f"""\
model = "{MODEL}"
model_provider = "loopback"
check_for_update_on_startup = false

[model_providers.loopback]
name = "Loopback"
base_url = "{server.openai_url}"
wire_api = "responses"
env_key = "LOOPBACK_API_KEY"
"""
    return _Pointing(env={"LOOPBACK_API_KEY": KEY}, files={".codex/config.toml": config})


def _kimi(server: ModelServer, workdir: Path) -> _Pointing:
    return _Pointing(
        env={
            "KIMI_MODEL_NAME": MODEL,
            "KIMI_MODEL_API_KEY": KEY,
            "KIMI_MODEL_BASE_URL": server.openai_url,
            "KIMI_MODEL_PROVIDER_TYPE": "kimi",
            "KIMI_DISABLE_TELEMETRY": "1",
            "KIMI_CODE_NO_AUTO_UPDATE": "1",
        }
    )


def _grok(server: ModelServer, workdir: Path) -> _Pointing:
    config = f"""\
[models]
default = "loopback"

[model.loopback]
model = "{MODEL}"
base_url = "{server.openai_url}"
api_key = "{KEY}"
api_backend = "chat_completions"
context_window = {CONTEXT_WINDOW}
"""
    env = {"XAI_API_KEY": KEY, "GROK_DISABLE_AUTOUPDATER": "1", "GROK_TELEMETRY_ENABLED": "0"}
    return _Pointing(env=env, files={".grok/config.toml": config})


def _hermes(server: ModelServer, workdir: Path) -> _Pointing:
    config = f"""\
model:
  provider: custom
  default: {MODEL}
  base_url: {server.openai_url}
  api_key: {KEY}
  context_length: {CONTEXT_WINDOW}
"""
    env = {"HERMES_YOLO_MODE": "1", "PYTHONUNBUFFERED": "1"}
    return _Pointing(env=env, files={".hermes/config.yaml": config})


_POINTINGS: dict[str, Callable[[ModelServer, Path], _Pointing]] = {
    "claude": _claude,
    "codebuddy": _codebuddy,
    "opencode": _opencode,
    "qwen": _qwen,
    "pi": _pi,
    "copilot": _copilot,
    "openclaw": _openclaw,
    "codex": _codex,
    "kimi": _kimi,
    "grok": _grok,
    "hermes": _hermes,
}
