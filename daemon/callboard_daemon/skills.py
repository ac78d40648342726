"""Part of hop 5: what the claim calls skills becomes bundles, from the cache or from the server.

One request a skill, each kept at once: on a slow line a second try has less to fetch than the first, while one answer
with everything in it never arrived (seen elsewhere).
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Sequence
from typing import Final
from weakref import WeakValueDictionary

from pydantic import ValidationError

from callboard_daemon.control import Control
from callboard_daemon.errors import BadAnswer, ControlError, NotFound, PrepareError
from callboard_daemon.retry import retrying, task_lost, worth_another_try
from callboard_daemon.skill_cache import SkillCache, bundle_of
from callboard_wire.bodies import ClaimedTask
from callboard_wire.failures import FailureReason
from callboard_wire.skill_files import Bundle, SkillRefused
from callboard_wire.skills import ResolveSkills, SkillBody, SkillRef

log = logging.getLogger(__name__)

AT_ONCE: Final = 4
PATIENCE_S: Final = 60.0
"""How long one skill is tried for. The task's own retry comes after that, and finds what has been fetched by then."""
SLOWEST_BYTES_S: Final = 50 * 1024
SHORTEST_S, LONGEST_S = 30.0, 300.0
SKILL_NOT_FOUND: Final = "skill_not_found"


class Skills:
    """This daemon's way to skills: a cache, and a lock a hash, so that tasks that start together fetch each once."""

    def __init__(self, control: Control, cache: SkillCache, *, patience: float = PATIENCE_S) -> None:
        self._control = control
        self._cache = cache
        self._patience = patience
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def of_task(self, task: ClaimedTask) -> list[Bundle]:
        """What the agent is to have, in its order. Raises `PrepareError` ``skill_bundle_unavailable``, and the
        `ControlError` that says that the task is not ours any more."""
        bundles = [_given(whole) for whole in task.agent.skills]
        few = asyncio.Semaphore(AT_ONCE)

        async def one(ref: SkillRef) -> Bundle:
            async with few:
                return await self._one(task, ref)

        asked = [asyncio.create_task(one(_ref(raw))) for raw in task.agent.skill_refs]
        try:
            return bundles + list(await asyncio.gather(*asked))
        finally:
            await _end(asked)

    async def _one(self, task: ClaimedTask, ref: SkillRef) -> Bundle:
        lock = self._locks.setdefault(ref.hash, asyncio.Lock())
        async with lock:
            known = await asyncio.to_thread(self._cache.load, ref.hash)
            if known is not None and (known.id, known.source) == (ref.id, ref.source):
                return known
            fetched = await self._fetched(task, ref)
            await asyncio.to_thread(self._cache.store, fetched)
            return fetched

    async def _fetched(self, task: ClaimedTask, ref: SkillRef) -> Bundle:
        began = time.monotonic()
        body = ResolveSkills(claim_id=task.claim_id, fence=task.fence, refs=[ref])
        needed = min(ref.size_bytes / SLOWEST_BYTES_S, LONGEST_S)
        limit = max(needed, SHORTEST_S)
        try:
            return await retrying(
                lambda: self._ask(task, ref, body, limit), within=max(self._patience, needed), until=_may_come
            )
        except (ControlError, SkillRefused) as error:
            if task_lost(error):
                raise
            raise PrepareError(
                f"the skill {ref.name!r} ({ref.id}, {ref.size_bytes} bytes) could not be had in "
                f"{time.monotonic() - began:.1f} s: {error}",
                failure_reason=FailureReason.SKILL_BUNDLE_UNAVAILABLE,
            ) from error

    async def _ask(self, task: ClaimedTask, ref: SkillRef, body: ResolveSkills, limit: float) -> Bundle:
        answer = await self._control.resolve_skills(task.runtime_id, task.id, body, timeout=limit)
        if not answer.bundles or (answer.bundles[0].id, answer.bundles[0].source) != (ref.id, ref.source):
            raise BadAnswer(f"the server answered with another skill than {ref.id}")
        bundle = await asyncio.to_thread(bundle_of, answer.bundles[0])
        if bundle.hash != ref.hash:
            log.info("skill %s was changed since the claim", ref.id)
        return bundle


def _given(whole: object) -> Bundle:
    """A skill that came with the claim, from a server that sends them so."""
    try:
        return bundle_of(SkillBody.model_validate(whole))
    except (ValidationError, SkillRefused) as error:
        raise _unusable(error) from error


def _ref(raw: object) -> SkillRef:
    try:
        return SkillRef.model_validate(raw)
    except ValidationError as error:
        raise _unusable(error) from error


def _unusable(error: Exception) -> PrepareError:
    said = error.message if isinstance(error, SkillRefused) else "it is not what a skill looks like on the wire"
    return PrepareError(
        f"a skill of the claim cannot be used here: {said}", failure_reason=FailureReason.SKILL_BUNDLE_UNAVAILABLE
    )


def _may_come(error: BaseException) -> bool:
    """Whether the same question may be answered later. A skill that the agent no longer has does not come back."""
    if isinstance(error, NotFound) and error.code == SKILL_NOT_FOUND:
        return False
    return worth_another_try(error)


async def _end(tasks: Sequence[asyncio.Task[Bundle]]) -> None:
    for task in tasks:
        task.cancel()
    if tasks:
        await asyncio.wait(tasks)
