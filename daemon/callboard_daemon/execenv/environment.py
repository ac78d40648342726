"""The environment of an agent's process: one we chose, and never the daemon's own.

    chosen from the daemon's  ─▶  the config file's [env]  ─▶  the agent's custom_env  ─▶  the task's own MULTICA_*

HOME and XDG_* stay the user's on purpose: moving them broke the logins of every tool an agent calls, and isolated
nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final

from callboard_adapters.process.environment import chosen_env
from callboard_wire.bodies import ClaimedTask
from callboard_wire.environment import refused_keys

# What a program needs to be at home on a machine. Logins of providers come from the adapters' capabilities on top.
INHERITED: Final = (
    # who and where
    *("HOME", "USER", "LOGNAME", "SHELL", "TERM", "COLORTERM", "LANG", "LANGUAGE", "LC_*", "TZ", "HOSTNAME", "XDG_*"),
    # the way out: both cases, because programs disagree
    *("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "all_proxy", "no_proxy"),
    *("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "NODE_EXTRA_CA_CERTS", "GIT_SSL_CAINFO"),
    # keys held by an agent process, displays, containers
    *(
        "SSH_AUTH_SOCK",
        "SSH_AGENT_PID",
        "GPG_TTY",
        "GNUPGHOME",
        "DISPLAY",
        "WAYLAND_DISPLAY",
        "DBUS_SESSION_BUS_ADDRESS",
    ),
    *("DOCKER_HOST", "DOCKER_CONFIG", "KUBECONFIG", "CUDA_*", "NVIDIA_*", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH"),
    # tool chains and where version managers keep theirs
    *("NVM_*", "FNM_*", "VOLTA_HOME", "N_PREFIX", "BUN_INSTALL", "PNPM_HOME", "DENO_*", "NPM_CONFIG_*", "npm_config_*"),
    *("PYENV_*", "ASDF_*", "MISE_*", "UV_*", "PIP_*", "POETRY_*", "VIRTUAL_ENV", "CONDA_*", "PYTHONPATH", "PYTHONUTF8"),
    *("JAVA_HOME", "JDK_HOME", "SDKMAN_*", "MAVEN_*", "GRADLE_*", "ANDROID_*", "GO*", "CARGO_*", "RUSTUP_*", "RUST_*"),
    *(
        "RBENV_*",
        "GEM_*",
        "BUNDLE_*",
        "HOMEBREW_*",
        "NIX_*",
        "CC",
        "CXX",
        "CFLAGS",
        "LDFLAGS",
        "PKG_CONFIG_PATH",
        "MAKEFLAGS",
    ),
    # what people set for their tools
    *(
        "EDITOR",
        "VISUAL",
        "PAGER",
        "GIT_AUTHOR_*",
        "GIT_COMMITTER_*",
        "GIT_SSH*",
        "GIT_CONFIG_*",
        "GH_*",
        "GITHUB_TOKEN",
    ),
    # only ever passed on: whether this is a sandbox is for its owner to say
    "IS_SANDBOX",
    # Windows
    *(
        "SystemRoot",
        "SYSTEMROOT",
        "ComSpec",
        "COMSPEC",
        "PATHEXT",
        "APPDATA",
        "LOCALAPPDATA",
        "USERPROFILE",
        "ProgramData",
    ),
)

_PROXIES: Final = ("http_proxy", "https_proxy", "all_proxy", "no_proxy")


def inherited(daemon_env: Mapping[str, str], more: Iterable[str] = (), adapter: Iterable[str] = ()) -> dict[str, str]:
    """The part of the daemon's environment an agent gets.

    `more` are further names or `PREFIX_*` patterns, `adapter` the names the provider's adapter reads. Variables of the
    product and of the protocol never pass unless the adapter names them: they carry the daemon's token, or somebody
    else's task.
    """
    own = frozenset(adapter)
    patterns = (*INHERITED, *more)
    chosen = {
        name: value
        for name, value in daemon_env.items()
        if name in own or (_matches(name, patterns) and not name.upper().startswith(("MULTICA_", "CALLBOARD_")))
    }
    return chosen_env(chosen)


def task_environment(
    task: ClaimedTask,
    *,
    base: Mapping[str, str],
    machine_env: Mapping[str, str],
    path: Iterable[str],
    tmp: Path,
    server_url: str,
    daemon_port: int,
    slot: int,
) -> dict[str, str]:
    """The whole environment of a run.

    `base` is what was inherited, `machine_env` the config file's `[env]`, `path` the folders of PATH in their order
    (the private bin folder first). A refused custom_env key is left out; say so with `refused_keys`.
    """
    refused = set(refused_keys(task.agent.custom_env))
    env = {**base, **machine_env}
    env |= {name: value for name, value in task.agent.custom_env.items() if name not in refused}
    _both_cases(env)
    env |= {name: str(tmp) for name in ("TMPDIR", "TMP", "TEMP")}
    env["PATH"] = ":".join(dict.fromkeys(folder for folder in path if folder))
    return env | {
        "MULTICA_TOKEN": task.auth_token,
        "MULTICA_SERVER_URL": server_url,
        "MULTICA_DAEMON_PORT": str(daemon_port),
        "MULTICA_WORKSPACE_ID": task.workspace_id,
        "MULTICA_AGENT_NAME": task.agent.name,
        "MULTICA_AGENT_ID": task.agent_id,
        "MULTICA_TASK_ID": task.id,
        "MULTICA_TASK_SLOT": str(slot),
    }


def secrets_of(task: ClaimedTask) -> list[str]:
    """Every value in the claim that must not show up in what is stored: the task's token, a gateway's, custom_env, MCP
    credentials."""
    found = [task.auth_token, *task.agent.custom_env.values()]
    gateway = (task.agent.runtime_config or {}).get("gateway")
    if isinstance(gateway, dict) and isinstance(gateway.get("token"), str):
        found.append(gateway["token"])
    for server in ((task.agent.mcp_config or {}).get("mcpServers") or {}).values():
        for table in ("env", "headers"):
            held = server.get(table) if isinstance(server, dict) else None
            found += [value for value in held.values() if isinstance(value, str)] if isinstance(held, dict) else []
    return found


def _both_cases(env: dict[str, str]) -> None:
    """curl reads only `http_proxy`, many programs only `HTTP_PROXY`: whoever sets one means both."""
    for lower in _PROXIES:
        upper = lower.upper()
        if (value := env.get(lower) or env.get(upper)) is not None:
            env.setdefault(lower, value)
            env.setdefault(upper, value)


def _matches(name: str, patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)
