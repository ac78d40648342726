"""Bodies about runtimes: what people change about the places where agents run."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from callboard_wire.bodies import Body, Name


class UpdateRuntimeRequest(Body):
    """Fields that are absent stay; null clears the name or the limit."""

    custom_name: Name | None = None
    visibility: Literal["private", "public"] | None = None
    max_concurrent_tasks: int | None = Field(None, ge=1, le=50)
