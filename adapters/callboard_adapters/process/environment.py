"""The environment a child gets: one we chose.

A coding agent that finds another agent's markers thinks it is nested in it and behaves differently, so those exact
names go. Other `CLAUDE_CODE_*` variables are the user's configuration and must pass: stripping the whole family once
broke every Windows user with a custom shell path.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping

RUN_MARKER = "CALLBOARD_RUN_ID"
"""In the environment of every process of a run, so that they are found by it after anything."""

INTERNAL = frozenset(
    {
        "CLAUDECODE",
        "CLAUDE_CODE_ENTRYPOINT",
        "CLAUDE_CODE_EXECPATH",
        "CLAUDE_CODE_SESSION_ID",
        "CLAUDE_CODE_SSE_PORT",
    }
)
_INTERNAL_PREFIXES = ("CLAUDECODE_",)
_INHERITED_ONLY_PREFIXES = ("MULTICA_", "CALLBOARD_")
"""Somebody else's task or our own configuration: never inherited, but a caller may set them on purpose."""


def default_env() -> dict[str, str]:
    """This process's environment as a child may inherit it."""
    return {k: v for k, v in chosen_env(os.environ).items() if not k.startswith(_INHERITED_ONLY_PREFIXES)}


def chosen_env(env: Mapping[str, str]) -> dict[str, str]:
    """A caller's environment without other agents' markers."""
    return {k: v for k, v in env.items() if k not in INTERNAL and not k.startswith(_INTERNAL_PREFIXES)}


def child_env(
    base: Mapping[str, str], added: Mapping[str, str], removed: Iterable[str], cwd: str, run_id: str
) -> dict[str, str]:
    """`base` without `removed`, plus `added`, PWD (some CLIs trust it over the real folder) and the run's marker."""
    env = dict(base)
    for name in removed:
        env.pop(name, None)
    env.update(added)
    env["PWD"] = cwd
    env[RUN_MARKER] = run_id
    return env
