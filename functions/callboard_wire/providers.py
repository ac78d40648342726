"""What both ends must agree on about a provider: its thinking levels, the models it is known to have, and what the
built-in model profiles mean to it.

The adapters declare the same in their capabilities and a test compares; the control plane may not import them, and has
to refuse a wrong level when it is written down, not when a machine somewhere has already claimed the task. A provider
that is not here comes from somebody's own package: its words are passed on as they are.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final


@dataclass(frozen=True, slots=True)
class Model:
    """A model by the id its provider's CLI takes. `context_window` in tokens; None where nobody has recorded it."""

    id: str
    context_window: int | None = None


@dataclass(frozen=True, slots=True)
class Choice:
    """What a run uses; None is the CLI's own choice. `max_tokens` are those of one answer."""

    model: str | None = None
    thinking_level: str | None = None
    max_tokens: int | None = None
    max_turns: int | None = None


@dataclass(frozen=True, slots=True)
class Provider:
    """`open_levels`: the CLI learns its levels from a catalogue of its own, so any word may be one. `models` are those
    known without asking the CLI; it may have others. `gateway`: it reads an agent's `runtime_config`. `profiles`: what
    `fast` and `smart` are here."""

    thinking_levels: tuple[str, ...] = ()
    open_levels: bool = False
    service_tiers: bool = False
    turn_limit: bool = False
    gateway: bool = False
    models: tuple[Model, ...] = ()
    profiles: Mapping[str, Choice] = field(default_factory=dict)


PROFILE_KEYS: Final = ("default", "fast", "smart")
"""Every workspace has them; `default` is the CLI's own choice."""
_BY_LEVEL: Final = {"fast": Choice(thinking_level="low"), "smart": Choice(thinking_level="high")}

PROVIDERS: Final[Mapping[str, Provider]] = {
    "amp": Provider(),
    "antigravity": Provider(),
    "claude": Provider(
        thinking_levels=("low", "medium", "high", "xhigh", "max"),
        turn_limit=True,
        models=(
            # The short names are the CLI's own for the newest of each kind: they stay valid when a model goes.
            *(Model(name) for name in ("haiku", "sonnet", "opus")),
            Model("claude-opus-5-5", 1_000_000),
            Model("claude-haiku-4-5-20251001", 200_000),
            *(Model(f"claude-sonnet-{version}") for version in ("5", "4-6", "4-5")),
            *(Model(f"claude-opus-{version}") for version in ("5", "4-8", "4-7", "4-6")),
            Model("claude-fable-5"),
        ),
        profiles={"fast": Choice(model="haiku"), "smart": Choice(model="opus")},
    ),
    "codebuddy": Provider(
        thinking_levels=("minimal", "low", "medium", "high", "xhigh", "max"), turn_limit=True, profiles=_BY_LEVEL
    ),
    # Which models an account has is known to the CLI alone, so its profiles choose the effort and leave the model.
    "codex": Provider(
        thinking_levels=("minimal", "low", "medium", "high", "xhigh", "max", "ultra"),
        open_levels=True,
        service_tiers=True,
        models=tuple(
            Model(f"gpt-{name}")
            for name in ("6.2-sol", "5.6-sol", "5.6-terra", "5.6-luna", "5.5", "5.4", "5.4-mini", "5.3-codex", "5.2")
        ),
        profiles=_BY_LEVEL,
    ),
    "copilot": Provider(thinking_levels=("none", "minimal", "low", "medium", "high", "xhigh", "max")),
    "cursor": Provider(models=(Model("auto"),)),
    "deveco": Provider(),
    "echo": Provider(),
    "grok": Provider(
        thinking_levels=("low", "medium", "high", "xhigh"),
        models=(Model("grok-4.6", 500_000), Model("grok-4.5", 500_000)),
        profiles=_BY_LEVEL,
    ),
    "hermes": Provider(),
    "kimi": Provider(thinking_levels=("off", "on", "low", "medium", "high", "max"), profiles=_BY_LEVEL),
    "kiro": Provider(),
    "openclaw": Provider(
        thinking_levels=("off", "minimal", "low", "medium", "high", "xhigh", "adaptive", "max"),
        gateway=True,
        profiles=_BY_LEVEL,
    ),
    # A level is the name of a variant, which a user's configuration may add to; not every model has one.
    "opencode": Provider(
        thinking_levels=("none", "minimal", "low", "medium", "high", "xhigh", "max"), open_levels=True
    ),
    "pi": Provider(thinking_levels=("off", "minimal", "low", "medium", "high", "xhigh", "max"), profiles=_BY_LEVEL),
    "qoder": Provider(),
    "qwen": Provider(turn_limit=True),
    "traecli": Provider(),
}

_WORD: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_VARIANT: Final = re.compile(r"\[[^\]]*\]$")


def models_of(provider: str) -> tuple[Model, ...]:
    """The models a provider is known to have; () for one that only its CLI can tell."""
    return PROVIDERS[provider].models


def wrong_level(provider: str, level: str) -> str:
    """Why `level` is no thinking level of `provider`, as the end of a sentence; "" if it is one."""
    known = PROVIDERS.get(provider)
    if known is None or known.open_levels:
        return "" if _WORD.fullmatch(level) else "a thinking level is one word"
    if not known.thinking_levels:
        return f"{provider} has no control over thinking"
    return "" if level in known.thinking_levels else f"{provider} knows {', '.join(known.thinking_levels)}"


def wrong_tier(provider: str, tier: str) -> str:
    """Why `tier` is no service tier of `provider`; "" if it may be one."""
    known = PROVIDERS.get(provider)
    if known is not None and not known.service_tiers:
        return f"{provider} has no service tiers"
    return "" if _WORD.fullmatch(tier) else "a service tier is one word"


def is_foreign_model(model: str, provider: str) -> bool:
    """Whether `model` is known to be another provider's and not this one's. Names nobody knows are somebody's own."""
    base = _VARIANT.sub("", model)
    owners = {name for name, known in PROVIDERS.items() if any(base == m.id for m in known.models)}
    return bool(owners) and provider not in owners


def built_in(key: str, provider: str) -> Choice | None:
    """What the built-in profile `key` is to `provider`; None where it says nothing about it."""
    if key == "default":
        return Choice()
    known = PROVIDERS.get(provider)
    return known.profiles.get(key) if known is not None else None
