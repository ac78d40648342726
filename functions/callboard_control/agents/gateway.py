"""An agent's `runtime_config` as it is kept: the words on the agent's item, the gateway's token in the secret store.

The item holds the token's *version*. So a token is kept, shown as ``***`` and taken away without being read, which the
function that does all this may not; and two changes at once cannot bring an old token back.
"""

from __future__ import annotations

from typing import Any, Final

from callboard_control import ports
from callboard_control.agents import settings
from callboard_control.errors import Unavailable
from callboard_control.ports.secrets import SecretsUnavailable, gateway_token_of
from callboard_control.store import keys
from callboard_control.store.models import AgentItem
from callboard_wire.providers import PROVIDERS
from callboard_wire.runtime_config import MASK, RuntimeConfig

CONFIG: Final = "runtime_config"
VERSION: Final = "gateway_token_version"
TOKEN: Final = "token"  # noqa: S105  (a field's name)


def taken_apart(sent: RuntimeConfig | None) -> tuple[dict[str, Any], str | None]:
    """What a request's `runtime_config` changes on the item, by attribute, and the token to `keep` for it.

    The version is absent where the stored token stays (its field was left out, or is a mask) and None where it goes:
    with null, with "", and with the gateway it was for.
    """
    plain = sent.plain() if sent is not None else {}
    token = plain.get("gateway", {}).pop(TOKEN, None)
    if not plain.get("gateway", True):
        del plain["gateway"]
    changes: dict[str, Any] = {CONFIG: plain or None}
    gateway = sent.gateway if sent is not None else None
    said = gateway.model_fields_set if gateway is not None else frozenset()
    if token in settings.MASKS or (said and TOKEN not in said):
        return changes, None
    return changes | {VERSION: keys.new_id() if token else None}, token


def keep(agent_id: str, version: str, token: str) -> None:
    """Put the token where secrets are, before the item says that it is there. Raises `Unavailable`."""
    try:
        ports.current().secrets.write(gateway_token_of(agent_id), version, {TOKEN: token})
    except SecretsUnavailable as e:
        raise Unavailable("The secret store did not take the gateway's token; nothing was changed.") from e


def shown(agent: AgentItem) -> dict[str, Any]:
    """What anybody is shown of it."""
    config: dict[str, Any] = dict(agent.runtime_config or {})
    if agent.gateway_token_version:
        config["gateway"] = {**config.get("gateway", {}), TOKEN: MASK}
    return config


def unread(agent: AgentItem) -> str:
    """Why some of it does nothing, as a sentence; "" where all of it is read or nothing is said."""
    config, provider = shown(agent), agent.provider or ""
    known = PROVIDERS.get(provider)
    if config and known is not None and not known.gateway:
        readers = ", ".join(name for name, each in PROVIDERS.items() if each.gateway)
        return f"Its runtime_config has no effect: {provider} reads none ({readers} would)."
    if "gateway" in config and config.get("mode") != "gateway":
        return "The gateway in its runtime_config is not used: its mode is not `gateway`."
    return ""
