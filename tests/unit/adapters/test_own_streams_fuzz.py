"""Whatever bytes a CLI, its files and its commands produce: nothing is raised, and what is said has the right types."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from callboard_adapters import registry
from callboard_adapters.base import Adapter, FileContent, ProcessExit
from callboard_adapters.messages import Message
from tests.unit.adapters.speaking import Speaking

PROVIDERS = ("opencode", "deveco", "pi", "copilot", "openclaw", "antigravity", "codebuddy", "qwen", "amp", "cursor")
RECORDINGS = Path(__file__).parents[2] / "fixtures" / "transcripts"
VALUES = (None, True, 0, -1, 3.5, float("nan"), 1e400, "x", "", [], {}, [1], {"a": 1}, [[]], {"text": 3}, "\ud800",
          [{"type": "text", "text": None}])  # fmt: skip
by_provider = pytest.mark.parametrize("provider", PROVIDERS)


def fresh(provider: str) -> Speaking:
    adapter: type[Adapter] = registry.adapter_class(provider)
    return Speaking(adapter, version="2026.9.6" if provider == "openclaw" else "999.0.0")


def end(run: Speaking) -> None:
    outcome = run.adapter.finish(ProcessExit(0, None, None, run.turn_ended, ""))
    assert isinstance(outcome.output, str)
    assert isinstance(outcome.error, str)
    for used in (outcome.usage or {}).values():
        assert min(used.input_tokens, used.output_tokens, used.cache_read_tokens, used.cache_write_tokens) >= 0
    for said in run.outputs:
        if isinstance(said, Message):
            fields = (said.content, said.tool, said.call_id, said.output, said.status, said.parent_call_id)
            assert all(isinstance(f, str) for f in fields), said
            assert said.input is None or isinstance(said.input, dict)


@by_provider
@given(st.lists(st.binary(max_size=200), max_size=8), st.lists(st.binary(max_size=80), max_size=4))
@settings(max_examples=30, deadline=None)
def test_arbitrary_bytes_never_raise(provider, lines, errors):
    run = fresh(provider)
    for line in lines:
        run.line(line)
    for line in errors:
        run.adapter.receive_stderr(line)
    end(run)


def places(value: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The path to everything inside a JSON value."""
    if at:
        yield at
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, one in inner:
        yield from places(one, (*at, key))


def bent(event: dict[str, Any], chance: random.Random) -> dict[str, Any]:
    """The event with one to three of its values gone or of another type."""
    event = copy.deepcopy(event)
    for _ in range(chance.randint(1, 3)):
        *way, last = chance.choice(list(places(event)) or [("x",)])
        inside: Any = event
        try:
            for key in way:
                inside = inside[key]
            if chance.random() < 0.2:
                del inside[last]
            else:
                inside[last] = copy.deepcopy(chance.choice(VALUES))
        except (KeyError, IndexError, TypeError):
            continue  # the place has gone with an earlier change
    return event


@cache
def recorded(provider: str) -> list[list[dict[str, Any]]]:
    texts = [p.read_text() for p in sorted((RECORDINGS / provider).glob("*/stdout.jsonl"))]
    whole = provider == "openclaw"
    return [[json.loads(t)] if whole else [json.loads(x) for x in t.splitlines()] for t in texts if t.strip()]


@pytest.mark.parametrize("provider", ["opencode", "pi", "copilot", "openclaw"])
@given(st.randoms(use_true_random=False))
@settings(max_examples=150, deadline=None)
def test_recorded_events_bent_out_of_shape_never_raise(provider, chance):
    run = fresh(provider)
    for event in chance.choice(recorded(provider)):
        said = bent(event, chance) if chance.random() < 0.5 else event
        run.line(*json.dumps(said).encode().split(b"\n"))
    end(run)


@by_provider
@given(st.binary(max_size=400), st.sampled_from(["", "end", "look", "transcript", "usage", "mcp", "session"]))
@settings(max_examples=30, deadline=None)
def test_files_of_any_content_never_raise(provider, content, purpose):
    run = fresh(provider)
    if purpose and not (provider == "openclaw" and purpose == "session"):
        run.adapter.files(purpose, [FileContent("/x", len(content), content)])
        run.adapter.files(purpose, [])
    end(run)


@by_provider
@pytest.mark.parametrize("line", [b"[" * 100_000, b'{"a":' * 50_000, b'{"type":"text","part":' + b"[" * 9000 + b"}"])
def test_deep_nesting_never_raises(provider, line):
    end(fresh(provider).line(line))
