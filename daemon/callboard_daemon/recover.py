"""At a daemon's start: settle what its predecessor owed.

run with an ending      deliver the rest of its messages, its usage, its ending
run that had started    end what is left of its processes; deliver its messages; fail it as runtime_recovery
run that had not        end its processes; the server takes the task back
everything else         recover-orphans: tasks the server believes to be here and that no folder speaks of
"""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

from callboard_adapters.process import reap_run
from callboard_daemon.control import Control
from callboard_daemon.deliver import Delivery
from callboard_daemon.errors import ControlError
from callboard_daemon.finish import ending_without_run
from callboard_daemon.retry import retrying
from callboard_daemon.runs import RunFolder, leftover_runs
from callboard_daemon.spool import Spool
from callboard_wire.bodies import RecoverOrphansRequest
from callboard_wire.failures import FailureReason

log = logging.getLogger(__name__)

ORPHANS_WITHIN_S = 60.0
KILLED = "the daemon was killed while the task ran; what the agent had done until then is in the messages"


async def settle_runs(runs_dir: Path, server_url: str) -> list[RunFolder]:
    """End every process of earlier runs, and give the runs whose ending has to be delivered. No network."""
    leftovers = [run for run in leftover_runs(runs_dir) if _is_ours(run, server_url)]
    unfinished = [run for run in leftovers if run.ending is None]
    for run, ended in zip(unfinished, await asyncio.gather(*(_reap(run) for run in unfinished)), strict=True):
        log.warning("task %s was running when the daemon died; ended %d processes", run.record.task_id, ended)
        if run.record.started:
            run.end(ending_without_run(run.record, None, KILLED, FailureReason.RUNTIME_RECOVERY))
        else:
            run.remove()
    return [run for run in leftovers if run.ending is not None]


async def recover_orphans(control: Control, runtime_ids: list[str], keep: list[str]) -> None:
    """Let the server settle what it believes to run here, but for `keep`. Not being able to is no reason not to work:
    leases and heartbeats settle it later."""
    body = RecoverOrphansRequest(keep=keep)
    for runtime in runtime_ids:
        try:
            answer = await retrying(lambda r=runtime: control.recover_orphans(r, body), within=ORPHANS_WITHIN_S)  # type: ignore[misc]  # mypy cannot infer a lambda with a default
        except ControlError as error:
            log.warning("cannot recover orphans of runtime %s: %s", runtime, error)
        else:
            if answer.orphaned:
                log.warning("runtime %s: %d tasks taken back, %d tried again", runtime, answer.orphaned, answer.retried)


async def deliver_leftover(control: Control, run: RunFolder, spool_limit: int) -> None:
    """Say what the predecessor could not, for as long as it takes; then nothing of the run is left here."""
    delivery = Delivery(control, run, Spool(run.spool_file, spool_limit))
    delivery.wake()
    how = await delivery.run()
    log.info("task %s of the previous daemon: %s", run.record.task_id, how)
    run.remove()


async def _reap(run: RunFolder) -> int:
    return await asyncio.to_thread(reap_run, run.record.run_id)


def _is_ours(run: RunFolder, server_url: str) -> bool:
    if run.record.server_url == server_url:
        return True
    log.warning("%s belongs to %s; it stays until the daemon talks to that server", run.path, run.record.server_url)
    return False
