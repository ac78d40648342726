"""The calls about runtimes and runtime profiles."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from callboard_daemon.cli.asking import SEGMENT, Asking, missing, segment
from callboard_daemon.errors import Invalid
from callboard_wire.api import RuntimeView
from callboard_wire.bodies import Body
from callboard_wire.runtimes import (
    CreateProfileRequest,
    ProfileView,
    RuntimeActivity,
    RuntimeUsage,
    UnbindAndDeleteRequest,
    UpdateProfileRequest,
    UpdateRuntimeRequest,
)


class RuntimeCalls(Asking):
    def runtimes(self) -> Iterator[RuntimeView]:
        return self._pages("/api/runtimes", RuntimeView, {"limit": 100})

    def runtime(self, name_or_id: str) -> RuntimeView:
        """By id, by the name people gave it, or by its machine's name for it. Raises `Invalid` where several fit."""
        if _is_id(name_or_id):
            return self._ask("GET", f"/api/runtimes/{segment(name_or_id, 'runtime')}", RuntimeView)
        wanted = name_or_id.casefold()
        fits = (r for r in self.runtimes() if wanted in (r.custom_name.casefold(), r.name.casefold()))
        found = list(islice(fits, 10))
        if not found:
            raise missing("runtime", name_or_id)
        if len(found) > 1:
            raise _ambiguous("runtime", name_or_id, [r.id for r in found])
        return found[0]

    def update_runtime(self, runtime_id: str, body: UpdateRuntimeRequest) -> RuntimeView:
        """Only what `body` was given is sent; null is a value there."""
        return self._ask("PATCH", f"/api/runtimes/{segment(runtime_id, 'runtime')}", RuntimeView, body, nulls=True)

    def delete_runtime(self, runtime_id: str) -> None:
        self._ask("DELETE", f"/api/runtimes/{segment(runtime_id, 'runtime')}", Body)

    def unbind_and_delete_runtime(self, runtime_id: str, agent_ids: list[str]) -> None:
        path = f"/api/runtimes/{segment(runtime_id, 'runtime')}/unbind-agents-and-delete"
        self._ask("POST", path, Body, UnbindAndDeleteRequest(expected_active_agent_ids=agent_ids), tries=1)

    def runtime_usage(self, runtime_id: str, days: int) -> Iterator[RuntimeUsage]:
        path = f"/api/runtimes/{segment(runtime_id, 'runtime')}/usage"
        return self._pages(path, RuntimeUsage, {"days": days})

    def runtime_activity(self, runtime_id: str, days: int) -> Iterator[RuntimeActivity]:
        path = f"/api/runtimes/{segment(runtime_id, 'runtime')}/activity"
        return self._pages(path, RuntimeActivity, {"days": days})

    def runtime_profiles(self, workspace_id: str) -> Iterator[ProfileView]:
        return self._pages(_profiles(workspace_id), ProfileView, {})

    def runtime_profile(self, workspace_id: str, name_or_id: str) -> ProfileView:
        wanted = name_or_id.casefold()
        for found in self.runtime_profiles(workspace_id):
            if name_or_id == found.id or wanted == found.display_name.casefold():
                return found
        raise missing("runtime profile", name_or_id)

    def create_runtime_profile(self, workspace_id: str, body: CreateProfileRequest) -> ProfileView:
        return self._ask("POST", _profiles(workspace_id), ProfileView, body, tries=1)

    def update_runtime_profile(self, profile: ProfileView, body: UpdateProfileRequest) -> ProfileView:
        return self._ask("PATCH", f"{_profiles(profile.workspace_id)}/{profile.id}", ProfileView, body)

    def delete_runtime_profile(self, profile: ProfileView) -> None:
        self._ask("DELETE", f"{_profiles(profile.workspace_id)}/{profile.id}", Body)


def _profiles(workspace_id: str) -> str:
    return f"/api/workspaces/{segment(workspace_id, 'workspace')}/runtime-profiles"


def _is_id(text: str) -> bool:
    return len(text) == 36 and text.count("-") == 4 and SEGMENT.fullmatch(text) is not None


def _ambiguous(thing: str, text: str, ids: list[str]) -> Invalid:
    several = f"Several {thing}s are called {text!r}: {', '.join(ids)}."
    return Invalid(several, status=400, code=f"{thing}_ambiguous", hint="Name the one you mean by its id.")
