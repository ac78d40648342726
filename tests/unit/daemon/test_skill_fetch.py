"""Skills of a claim when the server does not answer, or answers with something else."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from callboard_daemon.control import Control
from callboard_daemon.errors import PrepareError
from callboard_daemon.skill_cache import SkillCache
from callboard_daemon.skills import Skills
from callboard_wire.failures import FAILURES, FailureReason
from callboard_wire.skill_files import Bundle
from tests.unit.daemon.test_execenv import claimed

NOWHERE = "http://127.0.0.1:9"
KNOWN = Bundle("sk-1", "known", "d", "Do it.", {"a": b"1"})


def ref(bundle: Bundle, **changes: Any) -> dict[str, Any]:
    given = {"id": bundle.id, "source": bundle.source, "name": bundle.name, "hash": bundle.hash, "size_bytes": 7}
    return {**given, **changes}


async def skills_of(folder: Path, *refs: Any, **agent: Any) -> list[Bundle]:
    async with Control(NOWHERE, token="mdt_x", version="1", timeout=1.0) as control:
        skills = Skills(control, SkillCache(folder), patience=0.3)
        return await skills.of_task(claimed(agent={"skill_refs": list(refs), **agent}))


async def test_an_outage_that_lasts_ends_the_preparation_with_a_reason_that_is_tried_again(tmp_path: Path) -> None:
    with pytest.raises(PrepareError) as failed:
        await skills_of(tmp_path, ref(KNOWN))
    assert failed.value.failure_reason is FailureReason.SKILL_BUNDLE_UNAVAILABLE
    assert FAILURES[FailureReason.SKILL_BUNDLE_UNAVAILABLE].retryable
    for said in ("'known'", "sk-1", "7 bytes", NOWHERE):
        assert said in str(failed.value)


async def test_what_is_in_the_cache_needs_no_server(tmp_path: Path) -> None:
    SkillCache(tmp_path).store(KNOWN)
    assert await skills_of(tmp_path, ref(KNOWN)) == [KNOWN]


async def test_the_cache_of_one_skill_is_no_answer_for_another(tmp_path: Path) -> None:
    """A server that names a skill by another one's hash would have it shown under the wrong id."""
    SkillCache(tmp_path).store(KNOWN)
    with pytest.raises(PrepareError):
        await skills_of(tmp_path, ref(KNOWN, id="sk-2"))


@pytest.mark.parametrize("raw", [{}, {"id": 7}, {"id": None}, {"id": "x", "size_bytes": "many"}])
async def test_a_ref_that_is_none_is_refused_with_the_reason(tmp_path: Path, raw: dict[str, Any]) -> None:
    with pytest.raises(PrepareError) as failed:
        await skills_of(tmp_path, raw)
    assert failed.value.failure_reason is FailureReason.SKILL_BUNDLE_UNAVAILABLE


@pytest.mark.parametrize(
    "whole",
    [
        {"id": "x"},
        {"id": "x", "name": "n", "files": [{"path": "../x"}]},
        {"id": "x", "name": "n", "files": [{"path": "a"}, {"path": "A"}]},
        {"id": "x", "name": "n", "files": [{"path": "a", "content": "?", "encoding": "base64"}]},
    ],
)
async def test_a_whole_skill_that_breaks_a_rule_is_refused_with_the_reason(
    tmp_path: Path, whole: dict[str, Any]
) -> None:
    with pytest.raises(PrepareError) as failed:
        await skills_of(tmp_path, skills=[whole])
    assert failed.value.failure_reason is FailureReason.SKILL_BUNDLE_UNAVAILABLE


async def test_one_that_fails_ends_the_others_at_once(tmp_path: Path) -> None:
    async def quiet() -> int:
        return len([task for task in asyncio.all_tasks() if not task.done()])

    before = await quiet()
    with pytest.raises(PrepareError):
        await skills_of(tmp_path, {"id": "bad", "hash": KNOWN.hash}, *[ref(KNOWN, id=f"sk-{n}") for n in range(9)])
    assert await quiet() == before
