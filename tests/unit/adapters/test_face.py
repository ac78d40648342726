"""The public face, the registry and the error tree."""

from __future__ import annotations

import inspect
from importlib.metadata import EntryPoint

import pytest

import callboard_adapters
from callboard_adapters import AdapterError, ExecutionError, ProviderClash, UnknownProvider, errors, providers, registry
from callboard_adapters.base import Adapter
from callboard_wire.failures import FailureReason

FACE = [
    "AdapterError",
    "ArgumentsTooLarge",
    "Backend",
    "BackendConfig",
    "ExecOptions",
    "ExecutableNotFound",
    "ExecutableNotRunnable",
    "ExecutionError",
    "FailureDetail",
    "LaunchRefused",
    "Message",
    "MessageType",
    "ProviderClash",
    "Result",
    "RunStatus",
    "Session",
    "SpawnFailed",
    "StreamCounts",
    "TokenUsage",
    "UnknownProvider",
    "VersionUnsupported",
    "Watchdog",
    "WorkdirMissing",
    "create_backend",
    "providers",
]


def test_the_package_exports_its_face_and_nothing_else():
    assert callboard_adapters.__all__ == FACE


def test_every_error_is_in_the_tree_its_docstring_draws():
    defined = [c for _, c in inspect.getmembers(errors, inspect.isclass) if issubclass(c, Exception)]
    assert len(defined) > 5
    for error in defined:
        assert issubclass(error, AdapterError)
        assert error.__name__ in (errors.__doc__ or "")


def test_every_way_a_start_can_fail_has_a_closed_reason():
    for _, error in inspect.getmembers(errors, inspect.isclass):
        if issubclass(error, ExecutionError) and error is not ExecutionError:
            assert error.failure_reason is not FailureReason.UNKNOWN


@pytest.mark.parametrize("name", providers())
def test_every_known_provider_loads_and_answers_to_its_name(name):
    adapter = registry.adapter_class(name)
    assert issubclass(adapter, Adapter)
    assert adapter.capabilities.name == name


def test_an_unknown_provider_is_told_the_known_ones():
    with pytest.raises(UnknownProvider, match=r"known:.*claude.*echo"):
        registry.adapter_class("clod")


def plugins(monkeypatch, *points: EntryPoint) -> None:
    monkeypatch.setattr(registry, "entry_points", lambda group: points)
    registry.forget_plugins()


@pytest.fixture(autouse=True)
def _plugins_as_installed():
    yield
    registry.forget_plugins()


def test_a_plugin_is_found_by_its_entry_point(monkeypatch):
    plugins(monkeypatch, EntryPoint("parrot", "callboard_adapters.echo:EchoAdapter", registry.GROUP))
    assert "parrot" in providers()
    assert registry.adapter_class("parrot").__name__ == "EchoAdapter"


def test_a_plugin_cannot_take_a_built_ins_name_silently(monkeypatch):
    plugins(monkeypatch, EntryPoint("claude", "evil:Adapter", registry.GROUP))
    with pytest.raises(ProviderClash, match="claude"):
        registry.adapter_class("claude")
    assert registry.adapter_class("echo")


def test_a_plugin_that_is_no_adapter_is_named(monkeypatch):
    plugins(monkeypatch, EntryPoint("odd", "json:dumps", registry.GROUP))
    with pytest.raises(TypeError, match="odd"):
        registry.adapter_class("odd")
