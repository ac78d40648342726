"""`runtime_config`: how an agent's CLI reaches what really runs it. So far that is OpenClaw's mode and gateway.

The keys are the ones below, whatever the provider. Others are refused by name: a token under a misspelt key would be
kept and shown like any other word. `gateway.token` is a secret. It is taken in here, goes out with a claim, and is
shown as `MASK` everywhere else.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from ipaddress import IPv6Address
from typing import Any, Final, Literal

from pydantic import ConfigDict, Field, field_validator, model_validator
from pydantic_core import PydanticCustomError

from callboard_wire.bodies import Body

MASK: Final = "***"
"""Stands for a token that is there and is not shown."""
MAX_HOST_CHARS: Final = 253
_HOST: Final = re.compile(r"[A-Za-z0-9_]([A-Za-z0-9_.-]*[A-Za-z0-9_.])?")
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")


class _Settings(Body):
    """Strict: a setting that nobody knows would be an agent that does not do what it was told."""

    model_config = ConfigDict(extra="forbid")

    @model_validator(mode="before")
    @classmethod
    def _known(cls, value: Any) -> Any:
        if isinstance(value, Mapping):
            unknown = sorted(str(name)[:40] for name in value if name not in cls.model_fields)
            if unknown:
                raise PydanticCustomError(
                    "unknown_setting",
                    "There is no {unknown} here; known are {known}",
                    {"unknown": _listed(unknown[:5]), "known": _listed(cls.model_fields)},
                )
        return value


class Gateway(_Settings):
    """Where OpenClaw's gateway is; what is absent (or empty, or 0) is left to OpenClaw: this machine, port 18789. In a
    change an absent token stays as it is, and so does ``***``; null or "" takes it away."""

    host: str | None = Field(None, max_length=MAX_HOST_CHARS, description="A name or an address; no scheme, no port.")
    port: int | None = Field(None, ge=0, le=65535, strict=True)
    tls: bool | None = Field(None, strict=True)
    token: str | None = Field(None, max_length=4096, repr=False)

    @field_validator("host")
    @classmethod
    def _is_a_host(cls, value: str | None) -> str | None:
        host = (value or "").strip().removeprefix("[").removesuffix("]")
        if host and not _HOST.fullmatch(host) and not _is_ipv6(host):
            raise PydanticCustomError("invalid_host", "A host is a name or an address, without scheme, port or path")
        return host if value is not None else None

    @field_validator("token")
    @classmethod
    def _is_a_token(cls, value: str | None) -> str | None:
        word = (value or "").strip()
        if _CONTROL.search(word):
            raise PydanticCustomError("invalid_token", "A token has no control characters")
        return word if value is not None else None


class RuntimeConfig(_Settings):
    """`mode` "gateway" gives the work to an OpenClaw gateway, "local" (or "") does it in the CLI's own process."""

    mode: Literal["", "local", "gateway"] | None = None
    gateway: Gateway | None = None

    @classmethod
    def of_claim(cls, claimed: Mapping[str, Any]) -> RuntimeConfig:
        """What a claim says. Keys of a newer server are left aside; raises pydantic's `ValidationError`."""
        known = {name: claimed[name] for name in cls.model_fields if name in claimed}
        if isinstance(gateway := known.get("gateway"), Mapping):
            known["gateway"] = {name: gateway[name] for name in Gateway.model_fields if name in gateway}
        return cls.model_validate(known)

    def plain(self) -> dict[str, Any]:
        """What it says, without what says nothing: None, empty words, port 0, a gateway of which nothing is left."""
        return _told(self.model_dump(exclude_unset=True))


def _told(value: dict[str, Any]) -> dict[str, Any]:
    inner = {name: _told(one) if isinstance(one, dict) else one for name, one in value.items()}
    return {name: one for name, one in inner.items() if one is False or one}


def _is_ipv6(text: str) -> bool:
    try:
        return IPv6Address(text).scope_id is None
    except ValueError:
        return False


def _listed(names: Collection[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)
