"""`callboard_wire.providers`, which the control plane decides by, says what the adapters declare."""

from __future__ import annotations

import pytest

from callboard_adapters.registry import BUILT_IN, adapter_class
from callboard_wire.providers import PROFILE_KEYS, PROVIDERS, built_in, is_foreign_model, wrong_level, wrong_tier


def test_both_ends_know_the_same_providers():
    assert set(PROVIDERS) == set(BUILT_IN)


@pytest.mark.parametrize("name", sorted(BUILT_IN))
def test_both_ends_know_the_same_of_a_provider(name: str):
    declared, known = adapter_class(name).capabilities, PROVIDERS[name]
    assert known.thinking_levels == declared.thinking_levels
    assert known.turn_limit == declared.max_turns
    assert known.gateway == declared.gateway
    assert known.models == declared.models
    assert len({model.id for model in known.models}) == len(known.models)


@pytest.mark.parametrize("name", sorted(BUILT_IN))
def test_a_built_in_profile_asks_a_provider_for_nothing_it_does_not_know(name: str):
    for key in PROFILE_KEYS:
        choice = built_in(key, name)
        if choice is None:
            continue
        assert choice.model is None or choice.model in {model.id for model in PROVIDERS[name].models}
        assert choice.thinking_level is None or not wrong_level(name, choice.thinking_level)


@pytest.mark.parametrize(
    ("provider", "level", "fits"),
    [
        ("claude", "xhigh", True),
        ("claude", "ultra", False),
        ("codex", "ultra", True),
        ("codex", "whatever-is-next", True),
        ("codex", "two words", False),
        ("codex", "-x", False),
        ("echo", "low", False),
        ("somebody-elses", "odd", True),
        ("somebody-elses", "x" * 65, False),
    ],
)
def test_a_thinking_level_is_one_its_provider_knows(provider: str, level: str, fits: bool):
    assert (wrong_level(provider, level) == "") is fits


def test_only_codex_and_strangers_have_service_tiers():
    assert not wrong_tier("codex", "fast")
    assert not wrong_tier("somebody-elses", "fast")
    assert wrong_tier("claude", "fast")
    assert wrong_tier("codex", "no word")


@pytest.mark.parametrize(
    ("model", "provider", "foreign"),
    [
        ("claude-opus-5", "codex", True),
        ("claude-opus-5[1m]", "codex", True),
        ("claude-opus-5", "claude", False),
        ("opus", "echo", True),
        ("our-own-deployment", "codex", False),
        ("claude-through-our-proxy", "codex", False),
    ],
)
def test_a_model_is_foreign_only_where_that_is_known(model: str, provider: str, foreign: bool):
    assert is_foreign_model(model, provider) is foreign
