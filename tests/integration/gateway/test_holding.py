"""Held long polls: woken by the bell, starving nobody, and giving nothing to a caller that has left."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import httpx

from callboard_control.embedded.calls import Call, current_call
from callboard_control.embedded.doorbell import LocalDoorbell
from callboard_control.embedded.gateway import Gateway
from callboard_control.embedded.server import Running
from tests.integration.gateway.toys import Toys


async def until(what: Callable[[], bool], limit_s: float = 20.0) -> None:
    deadline = time.monotonic() + limit_s
    while not what():
        assert time.monotonic() < deadline, "it did not come about"
        await asyncio.sleep(0.01)


@asynccontextmanager
async def open_client(gateway: Gateway) -> AsyncIterator[httpx.AsyncClient]:
    limits = httpx.Limits(max_connections=None)
    async with httpx.AsyncClient(base_url=gateway.url, timeout=40, limits=limits) as client:
        yield client


async def claim(client: httpx.AsyncClient, wait: float, runtime_id: str = "r1") -> str | None:
    answer = await client.post("/api/claim", json={"wait": wait, "runtime_id": runtime_id})
    assert answer.status_code == 200, answer.text
    task: str | None = answer.json()["task"]
    return task


async def test_a_held_claim_is_answered_when_the_bell_rings(tmp_path: Path) -> None:
    toys = Toys()
    async with Running(toys.gateway(tmp_path)) as gateway, open_client(gateway) as client:
        held = asyncio.create_task(claim(client, 20))
        await until(lambda: toys.doorbell.waiting == 1)
        toys.give("task-1")
        assert await held == "task-1"


async def test_250_idle_long_polls_leave_everyone_else_served(tmp_path: Path) -> None:
    toys = Toys()
    async with Running(toys.gateway(tmp_path)) as gateway, open_client(gateway) as client:
        idle = [asyncio.create_task(claim(client, 20, f"idle-{n}")) for n in range(250)]
        await until(lambda: toys.doorbell.waiting == 250)
        assert (await client.get("/api/echo/x")).status_code == 200
        held = asyncio.create_task(claim(client, 20))
        await until(lambda: toys.doorbell.waiting == 251)
        toys.give("task-1")
        assert await held == "task-1"
        toys.doorbell.close()
        assert set(await asyncio.gather(*idle)) == {None}


async def test_when_no_more_can_be_held_a_claim_is_answered_at_once_instead(tmp_path: Path) -> None:
    toys = Toys()
    async with Running(toys.gateway(tmp_path, held_threads=2)) as gateway, open_client(gateway) as client:
        idle = [asyncio.create_task(claim(client, 20, f"idle-{n}")) for n in range(2)]
        await until(lambda: toys.doorbell.waiting == 2)
        assert await claim(client, 20) is None
        assert toys.doorbell.waiting == 2, "the first two are still held"
        toys.work.append("task-1")
        assert await claim(client, 20) == "task-1"
        toys.doorbell.close()
        await asyncio.gather(*idle)


async def test_a_claim_whose_caller_hung_up_takes_no_task(tmp_path: Path) -> None:
    toys = Toys()
    async with Running(toys.gateway(tmp_path)) as gateway:
        async with open_client(gateway) as client:
            gone = asyncio.create_task(claim(client, 20))
            await until(lambda: toys.doorbell.waiting == 1)
            gone.cancel()
        await until(lambda: toys.doorbell.waiting == 0)
        toys.give("task-1")
        async with open_client(gateway) as client:
            assert await claim(client, 0) == "task-1"


async def test_slow_handlers_fill_their_own_lane_and_claims_still_pass(tmp_path: Path) -> None:
    toys = Toys()
    async with Running(toys.gateway(tmp_path, threads=2)) as gateway, open_client(gateway) as client:
        slow = [asyncio.create_task(client.post("/api/slow")) for _ in range(2)]
        await until(lambda: gateway.front.lane.busy == 2)
        toys.give("task-1")
        assert await claim(client, 0) == "task-1"
        queued = asyncio.create_task(client.get("/api/echo/x"))
        toys.released.set()
        assert (await queued).status_code == 200
        assert {answer.status_code for answer in await asyncio.gather(*slow)} == {200}


def test_a_ring_between_look_and_wait_is_not_lost() -> None:
    bell = LocalDoorbell()
    seen = bell.sample(["r1", "r2"])
    bell.ring("r2")
    began = time.monotonic()
    assert bell.wait(seen, 30)
    assert time.monotonic() - began < 15, "it waited for another ring"


def test_a_ring_of_another_runtime_wakes_nobody() -> None:
    bell = LocalDoorbell()
    woken = threading.Event()

    def wait() -> None:
        bell.wait(bell.sample(["r1"]), 30)
        woken.set()

    thread = threading.Thread(target=wait, daemon=True)
    thread.start()
    while not bell.waiting:
        time.sleep(0.001)
    bell.ring("r2")
    assert not woken.wait(0.2)
    bell.ring("r1")
    assert woken.wait(10)
    thread.join(10)
    assert bell.waiting == 0


def test_many_waiters_and_ringers_lose_no_wake_up() -> None:
    """Each waiter consumes its tokens; a lost wake-up would leave one waiting for its 30 s."""
    bell = LocalDoorbell()
    rounds, names = 200, [f"r{n}" for n in range(8)]
    tokens = dict.fromkeys(names, 0)
    lock = threading.Lock()

    def consume(name: str) -> None:
        eaten = 0
        while eaten < rounds:
            seen = bell.sample([name])
            with lock:
                found, tokens[name] = tokens[name], 0
            eaten += found
            if not found and eaten < rounds:
                assert bell.wait(seen, 30)

    waiters = [threading.Thread(target=consume, args=(name,), daemon=True) for name in names]
    for waiter in waiters:
        waiter.start()
    for _ in range(rounds):
        for name in names:
            with lock:
                tokens[name] += 1
            bell.ring(name)
    for waiter in waiters:
        waiter.join(20)
        assert not waiter.is_alive()


def test_an_abandoned_call_does_not_wait_at_all() -> None:
    bell = LocalDoorbell()
    call = Call("r", 30)
    call.abandon()
    token = current_call.set(call)
    try:
        assert not bell.wait(bell.sample(["r1"]), 30)
    finally:
        current_call.reset(token)
