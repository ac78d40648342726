"""What an idle daemon costs a month on AWS, from the intervals the code uses and list prices.

Prices are us-east-1's list prices of November 2026, in dollars, without free tiers. A test holds the table in
`docs/explanation/idle-cost.md` against this.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from callboard_wire.bodies import HEARTBEAT_EVERY_S, MAX_WAIT_S

MONTH_S: Final = 30 * 24 * 3600
LAMBDA_GB_S: Final = 0.0000133334
LAMBDA_REQUEST: Final = 0.20e-6
HTTP_REQUEST: Final = 1.00e-6
READ_UNIT: Final = 0.125e-6
WRITE_UNIT: Final = 0.625e-6
SOCKET_MINUTE: Final = 0.25e-6
SOCKET_MESSAGE: Final = 1.00e-6

CALL_S: Final = 0.02
"""An empty claim's run time."""
LOOK_EVERY_S: Final = 0.5
"""How often a held claim looks again where no bell reaches it (`ports.doorbell.SilentDoorbell`)."""
READS_A_LOOK: Final = 1.0
"""Half a unit for the daemon's busy slots, half for one runtime's queue."""
PING_EVERY_S: Final = 9 * 60
SHORT_POLL_S: Final = 5.0
BELL_FALLBACK_S: Final = 60.0


@dataclass(frozen=True, slots=True)
class Idle:
    """One way to learn of work, and what it costs a daemon that has none."""

    way: str
    dollars: float
    wakes_within_s: float


def idle_costs(memory_gb: float) -> list[Idle]:
    """Dollars a month of one idle daemon with one runtime, for a claim function of `memory_gb`."""
    held_calls = MONTH_S / MAX_WAIT_S
    held = held_calls * _request() + MONTH_S * memory_gb * LAMBDA_GB_S
    held += MONTH_S / LOOK_EVERY_S * READS_A_LOOK * READ_UNIT
    short = MONTH_S / SHORT_POLL_S * _call(memory_gb)
    bell = MONTH_S / 60 * SOCKET_MINUTE + MONTH_S / PING_EVERY_S * SOCKET_MESSAGE
    bell += MONTH_S / BELL_FALLBACK_S * _call(memory_gb)
    # A claim is a heartbeat: the daemon's liveness is written about once every heartbeat interval, however it polls.
    beats = MONTH_S / HEARTBEAT_EVERY_S * WRITE_UNIT
    return [
        Idle("held poll, 20 s", held + beats, LOOK_EVERY_S),
        Idle("short poll, 5 s", short + beats, SHORT_POLL_S),
        Idle("bell, with a poll every 60 s", bell + MONTH_S / BELL_FALLBACK_S * WRITE_UNIT, BELL_FALLBACK_S),
    ]


def _request() -> float:
    return HTTP_REQUEST + LAMBDA_REQUEST


def _call(memory_gb: float) -> float:
    return _request() + CALL_S * memory_gb * LAMBDA_GB_S + READS_A_LOOK * READ_UNIT


def table(memory_gb: float) -> str:
    """The rows of the page's table."""
    return "\n".join(f"| {i.way} | {i.dollars:.2f} | {i.wakes_within_s:g} |" for i in idle_costs(memory_gb))
