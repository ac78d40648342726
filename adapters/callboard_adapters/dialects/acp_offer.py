"""What an ACP agent offers, read from its `initialize` and session answers so that nothing else is asked of it.

Answers of real agents leave objects out, say `null` for them, or spell a key in two ways; whatever has the wrong
shape counts as not offered.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

_EFFORT = ("effort", "thought_level", "reasoning_effort", "thinking")
_LOOKS_ONLY = frozenset({"plan", "read-only", "readonly", "read_only", "architect"})
_WORKS = ("default", "code", "agent", "build", "auto")


@dataclass(frozen=True, slots=True)
class Offer:
    """The answer to `initialize`. `stated` is False when it held no capabilities at all: then nothing is known."""

    stated: bool = False
    protocol: int | None = None
    load: bool = False
    resume: bool = False
    http: bool = False
    sse: bool = False
    remote_mcp_stated: bool = False
    auth_methods: tuple[str, ...] = ()
    default_auth: str = ""
    agent: str = ""  # name and version, to show

    @classmethod
    def read(cls, result: dict[str, Any]) -> Offer:
        raw = result.get("agentCapabilities")
        capabilities, info = mapping(raw), mapping(result.get("agentInfo"))
        remote, sessions = capabilities.get("mcpCapabilities"), mapping(capabilities.get("sessionCapabilities"))
        protocol = result.get("protocolVersion")
        return cls(
            stated=isinstance(raw, dict),
            protocol=protocol if type(protocol) is int else None,
            load=capabilities.get("loadSession") is True,
            resume=sessions.get("resume") not in (None, False),
            http=mapping(remote).get("http") is True,
            sse=mapping(remote).get("sse") is True,
            remote_mcp_stated="mcpCapabilities" in capabilities,
            auth_methods=tuple(text(m.get("id")) for m in objects(result.get("authMethods")) if text(m.get("id"))),
            default_auth=text(mapping(result.get("_meta")).get("defaultAuthMethodId")),
            agent=f"{text(info.get('name'))} {text(info.get('version'))}".strip(),
        )

    def has(self, method: str) -> bool:
        """Whether `session/load` or `session/resume` may be asked; an agent that states nothing may have both."""
        return not self.stated or (self.load if method == "session/load" else self.resume)


@dataclass(frozen=True, slots=True)
class Choice:
    """One `configOptions` entry; `values` maps each value to the name people see."""

    id: str
    category: str
    current: str
    values: dict[str, str]

    def value_of(self, wanted: str) -> str | None:
        """The value that `wanted` means: itself, or the one of that name; None when neither is offered."""
        if wanted in self.values:
            return wanted
        return next((v for v, name in self.values.items() if name == wanted), None)


@dataclass(slots=True)
class SessionOffer:
    """What the current session can be set to; `update` takes any answer or notification that says more."""

    models: tuple[str, ...] = ()
    model: str = ""
    lists_models: bool = False
    modes: tuple[str, ...] = ()
    mode: str = ""
    choices: dict[str, Choice] = field(default_factory=dict)

    def update(self, result: dict[str, Any]) -> None:
        models = mapping(result.get("models"))
        if models:
            self.lists_models = True
            self.models = tuple(text(m.get("modelId")) for m in objects(models.get("availableModels")))
        for holder in (models, result):
            self.model = text(holder.get("currentModelId")) or text(holder.get("current_model_id")) or self.model
        modes = mapping(result.get("modes"))
        if modes:
            self.modes = tuple(text(m.get("id")) for m in objects(modes.get("availableModes")))
            self.mode = text(modes.get("currentModeId")) or self.mode
        listed = result.get("configOptions", result.get("config_options"))
        if isinstance(listed, list):
            self.choices = {c.id: c for c in map(_choice, objects(listed)) if c.id}

    @property
    def current_model(self) -> str:
        choice = self.model_choice
        return self.model or (choice.current if choice else "")

    @property
    def model_choice(self) -> Choice | None:
        return self._choice_of("model")

    @property
    def effort_choice(self) -> Choice | None:
        return self._choice_of(*_EFFORT)

    def working_mode(self) -> str | None:
        """The mode to switch to when the session is in one that only looks: an agent in plan mode changes nothing
        and waits for a person to let it. None when it works already or offers nothing better."""
        if self.mode.lower() not in _LOOKS_ONLY:
            return None
        return next((m for wanted in _WORKS for m in self.modes if m.lower() == wanted), None)

    def _choice_of(self, *names: str) -> Choice | None:
        by_id = (c for c in self.choices.values() if c.id.lower() in names)
        by_category = (c for c in self.choices.values() if c.category.lower() in names)
        return next(by_category, None) or next(by_id, None)


def _choice(entry: dict[str, Any]) -> Choice:
    options = objects(entry.get("options"))
    # Options may come in groups, each with options of its own.
    options = [o for group in options for o in (objects(group.get("options")) or [group])]
    values = {text(o.get("value")) or text(o.get("name")): text(o.get("name")) for o in options}
    values.pop("", None)
    current = entry.get("currentValue", entry.get("current_value"))
    return Choice(text(entry.get("id")), text(entry.get("category")), text(current), values)


def mapping(value: Any) -> dict[str, Any]:
    """The object, or {} for anything else."""
    return value if isinstance(value, dict) else {}


def objects(value: Any) -> list[dict[str, Any]]:
    """The objects of a list, or [] for anything else."""
    return [v for v in value if isinstance(v, dict)] if isinstance(value, list) else []


def text(value: Any) -> str:
    """The string, or "" for anything else."""
    return value if isinstance(value, str) else ""


def first_text(values: Iterable[Any]) -> str:
    """The first string that is not empty, else ""."""
    return next((v for v in values if isinstance(v, str) and v), "")
