"""Which providers there are: a table for ours, the entry-point group `callboard.adapters` for everybody else's.

Adapters are imported when they are asked for, so a broken plugin breaks its own provider and nothing else.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points

from callboard_adapters.base import Adapter
from callboard_adapters.errors import ProviderClash, UnknownProvider

GROUP = "callboard.adapters"
BUILT_IN = {
    "amp": "callboard_adapters.amp:AmpAdapter",
    "antigravity": "callboard_adapters.antigravity:AntigravityAdapter",
    "claude": "callboard_adapters.claude:ClaudeAdapter",
    "codebuddy": "callboard_adapters.codebuddy:CodebuddyAdapter",
    "codex": "callboard_adapters.codex:CodexAdapter",
    "echo": "callboard_adapters.echo:EchoAdapter",
    "copilot": "callboard_adapters.copilot:CopilotAdapter",
    "cursor": "callboard_adapters.cursor:CursorAdapter",
    "deveco": "callboard_adapters.deveco:DevecoAdapter",
    "openclaw": "callboard_adapters.openclaw:OpenclawAdapter",
    "opencode": "callboard_adapters.opencode:OpencodeAdapter",
    "pi": "callboard_adapters.pi:PiAdapter",
    "grok": "callboard_adapters.grok:GrokAdapter",
    "hermes": "callboard_adapters.hermes:HermesAdapter",
    "kimi": "callboard_adapters.kimi:KimiAdapter",
    "kiro": "callboard_adapters.kiro:KiroAdapter",
    "qoder": "callboard_adapters.qoder:QoderAdapter",
    "qwen": "callboard_adapters.qwen:QwenAdapter",
    "traecli": "callboard_adapters.traecli:TraecliAdapter",
}


def providers() -> list[str]:
    """Every known provider, built-in and plugged in, in alphabetical order."""
    return sorted({*BUILT_IN, *_plugins()})


def adapter_class(name: str) -> type[Adapter]:
    """The adapter of `name`. Raises `UnknownProvider`, or `ProviderClash` for a plugin with a built-in's name."""
    plugin = _plugins().get(name)
    if name in BUILT_IN:
        if plugin is not None:
            raise ProviderClash(name, plugin.dist.name if plugin.dist else plugin.value)
        module, _, attribute = BUILT_IN[name].partition(":")
        loaded = getattr(import_module(module), attribute)
    elif plugin is not None:
        loaded = plugin.load()
    else:
        raise UnknownProvider(name, providers())
    if not (isinstance(loaded, type) and issubclass(loaded, Adapter)):
        raise TypeError(f"{name}: {loaded!r} is not an Adapter class")
    return loaded


@cache
def _plugins() -> dict[str, EntryPoint]:
    return {point.name: point for point in entry_points(group=GROUP)}


def forget_plugins() -> None:
    """Look for plugins again at the next question: one was installed, or is about to be pretended by a test."""
    _plugins.cache_clear()
