"""Plants a distinct secret in every field that may hold one, lets two tasks run, and writes down all that was answered.

Started as a process of its own by `test_canaries.py`, so that what it logs at level DEBUG is what it prints. The last
file it leaves, ``report.json``, says what was planted, and which answers hold which of it.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from callboard_control import ports
from callboard_control.embedded.engine.faults import Fault
from callboard_control.embedded.secrets import LocalSecrets
from callboard_control.ports.secrets import NoSecrets
from callboard_control.store.models import Item
from callboard_wire.environment import KEEP
from tests.contract.api.matrix import ACTORS, MATRIX
from tests.contract.api.stage import Stage
from tests.fakes.sim_world import SECRET, Answer

MCP = {
    "mcpServers": {
        "local": {"command": "tool", "env": {"KEY": "canary-mcp-env"}},
        "remote": {"url": "http://127.0.0.1:9/mcp", "headers": {"Authorization": "Bearer canary-mcp-header"}},
    }
}
REACHED = {"mode": "gateway", "gateway": {"host": "canary-gateway-host", "port": 9, "token": "canary-gateway-token"}}
ENV = {"API_KEY": "canary-custom-env", "OTHER": "canary-custom-env-other"}


@dataclass
class Ledger:
    """`planted`: what → its value. `shown`: what → who was shown it by which route."""

    planted: dict[str, str]
    shown: dict[str, list[str]] = field(default_factory=dict)
    answers: int = 0

    def note(self, actor: str, route: str, answer: Answer) -> None:
        self.answers += 1
        text = json.dumps(answer.body)
        for what, value in self.planted.items():
            if value in text:
                self.shown.setdefault(what, []).append(f"{actor} {route} {answer.status}")


class Outage:
    """The engine's injector: while `fault` is set, every request but the first `reads` meets it."""

    def __init__(self) -> None:
        self.now: Fault | None = None
        self.reads = 0

    def fault(self, operation: str, request: Mapping[str, Any]) -> Fault | None:
        if self.now is None or self.reads > 0:
            self.reads -= 1
            return None
        return self.now

    def wrote(self, table: str, index: str) -> None:
        pass

    def index_lag(self, table: str, index: str, ages: Sequence[float]) -> int:
        return 0


def secret_part(token: str) -> str:
    return token.rpartition("_")[2]


def main(folder: Path) -> None:
    Item.Meta.max_retry_attempts = 0  # the outages below are no shorter than any number of tries
    outage = Outage()
    stage = Stage(folder, faults=outage)
    waiting = stage.world.ok("POST", "/api/device/code", {}, "")
    ledger = Ledger(
        {
            "device code": waiting["device_code"],
            "user code": waiting["user_code"].replace("-", ""),
            "user code as shown": waiting["user_code"],
            "bootstrap secret": SECRET,
            "invitation": stage.things["invitation"],
            "mcp env": "canary-mcp-env",
            "mcp header": "canary-mcp-header",
            "gateway token": "canary-gateway-token",
            **{f"env {name}": value for name, value in ENV.items()},
            "misplaced": "canary-misplaced",
            **{
                f"token {actor}": secret_part(token)
                for actor, token in stage.tokens.items()
                if token and actor != "bad"
            },
        }
    )

    def do(actor: str, method: str, path: str, body: Any = None) -> Answer:
        answer = stage.world.call(method, path, body, stage.tokens.get(actor, actor))
        ledger.note(actor, f"{method} {path.replace(stage.things['agent_id'], '{agent}')}", answer)
        return answer

    agent = f"/api/agents/{stage.things['agent_id']}"
    do("aut", "PUT", f"{agent}/env", {"custom_env": ENV})
    do("aut", "PATCH", agent, {"mcp_config": MCP})
    do("aut", "PATCH", agent, {"runtime_config": REACHED})
    do("aut", "PUT", agent, {"runtime_config": do("aut", "GET", agent)["runtime_config"]})
    do("aut", "POST", "/api/agents", {"name": "n", "runtime_id": stage.machine.runtime_id, "runtime_config": REACHED})
    _runs(stage, ledger)
    _everybody_looks(stage, ledger)
    _mistakes(do, agent)
    _troubles(stage, outage, do, agent, folder)
    stage.world.tick()
    stage.world.clock.forward(3 * 24 * 3600)  # type: ignore[union-attr]
    stage.world.tick()
    rows = stage.world.engine.execute("Scan", {"TableName": "callboard"})["Items"]
    audit = stage.world.ok("GET", "/api/audit", query={"limit": 100})
    report = {
        "planted": ledger.planted,
        "shown": ledger.shown,
        "answers": ledger.answers,
        "rows": [repr(row) for row in rows],
        "audit": json.dumps(audit),
    }
    stage.close()
    (folder / "report.json").write_text(json.dumps(report))


def _runs(stage: Stage, ledger: Ledger) -> None:
    """Two tasks from the queue to their ends, one completed and one failed for good."""
    for verb, ending in (("complete", {"output": "done"}), ("fail", {"error": "no", "failure_reason": "agent_error"})):
        stage.enqueue(max_attempts=1)
        body = {"daemon_id": "laptop", "runtime_ids": [stage.machine.runtime_id], "claim_id": f"claim-{verb}"}
        claimed = stage.machine.call("POST", "/api/daemon/tasks/claim", body)
        task = claimed["tasks"][0]
        ledger.planted[f"token task {verb}"] = secret_part(task["auth_token"])
        ledger.note("dmn", "claim", claimed)
        proof = {"claim_id": task["claim_id"], "fence": task["fence"]}
        message = {"seq": 1, "type": "tool_use", "tool": "Bash", "input": {"command": "ls"}}
        for step, more in (
            ("start", {"work_dir": "/w"}),
            ("session", {"session_id": "s"}),
            ("messages", {"messages": [message]}),
            ("usage", {"usage": [{"provider": "echo", "model": "m", "input_tokens": 1}]}),
            (verb, ending),
        ):
            answer = stage.machine.call("POST", f"/api/daemon/tasks/{task['id']}/{step}", {**proof, **more})
            assert answer.status == 200, (step, answer)
            ledger.note("dmn", step, answer)


def _everybody_looks(stage: Stage, ledger: Ledger) -> None:
    """Every GET of the API, by everybody."""
    for row in MATRIX:
        if row.method == "GET":
            for actor in ACTORS:
                ledger.note(actor, row.name, stage.call(actor, row))


def _mistakes(do: Any, agent: str) -> None:
    """Secrets where they do not belong: the refusal must not repeat them."""
    wrong = "canary-misplaced"
    for path, method, body in (
        (f"{agent}/env", "PUT", {"custom_env": {"A": [wrong]}}),
        (f"{agent}/env", "PUT", {"custom_env": wrong}),
        (f"{agent}/env", "PUT", {"custom_env": {"PATH": wrong, "MULTICA_TOKEN": wrong}}),
        (f"{agent}/env", "PUT", {"custom_env": {"A": wrong}, "version": "old"}),
        (f"{agent}/env", "PUT", '{"custom_env": {"A": "' + wrong),
        (agent, "PATCH", {"custom_env": {"A": wrong}}),
        (agent, "PATCH", {"mcp_config": wrong}),
        (agent, "PATCH", {"runtime_config": wrong}),
        (agent, "PATCH", {"runtime_config": {"gateway": wrong}}),
        (agent, "PATCH", {"runtime_config": {"gatway": {"token": wrong}}}),
        (agent, "PATCH", {"runtime_config": {"gateway": {"token": [wrong]}}}),
        (agent, "PATCH", {"runtime_config": {"gateway": {"host": f"ws://h?token={wrong}"}}}),
        (agent, "PATCH", {"runtime_config": {"gateway": {"token": f"{wrong}\n{wrong}"}}}),
        ("/api/agents", "POST", {"name": "n", "custom_env": {"A": wrong}}),
        ("/api/agents", "POST", {"name": "n", "mcp_config": [wrong]}),
        ("/api/bootstrap", "POST", {"secret": wrong}),
        ("/api/bootstrap", "POST", {"secret": {"x": wrong}}),
        ("/api/invitations/accept", "POST", {"code": wrong}),
    ):
        assert do("aut", method, path, body).status >= 400, (method, path, body)
    for token in (wrong, f"mul_x_{wrong}", f"mat_{wrong}_" + "0" * 40, f"mul_{wrong}_" + "0" * 40):
        assert do(token, "GET", "/api/me").status == 401


def _troubles(stage: Stage, outage: Outage, do: Any, agent: str, folder: Path) -> None:
    """A store, a secret store and a doorbell that fail while secrets are in hand: what is logged then?"""
    for fault in (Fault.UNAVAILABLE, Fault.THROTTLING, Fault.LOST_RESPONSE):
        for reads in (3, 4):  # who asks and which agent is read; then what is written fails
            for path, body in (
                (f"{agent}/env", {"custom_env": ENV}),
                (agent, {"mcp_config": MCP}),
                (agent, {"runtime_config": REACHED}),
            ):
                outage.now, outage.reads = fault, reads
                assert do("aut", "PUT", path, body).status == 503
                outage.now = None
    usual = ports.current()
    for broken in (LocalSecrets(folder / "another.key"), NoSecrets(), _Broken()):
        stage.enqueue()
        ports.use(ports.Ports(clock=usual.clock, secrets=broken))
        do("aut", "GET", f"{agent}/env")
        do("aut", "PUT", f"{agent}/env", {"custom_env": {**ENV, "KEPT": KEEP}})
        do("aut", "PATCH", agent, {"runtime_config": REACHED})
        do("dmn", "POST", "/api/daemon/tasks/claim", {"runtime_ids": [stage.machine.runtime_id]})
    ports.use(ports.Ports(clock=usual.clock, secrets=usual.secrets, doorbell=_Broken()))
    do("aut", "POST", "/api/tasks", {"agent": stage.things["agent_id"], "prompt": "p"})
    do("dmn", "POST", "/api/daemon/tasks/claim", {"runtime_ids": [stage.machine.runtime_id]})
    ports.use(usual)


class _Broken:
    """A bug where a port should be."""

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError(f"no {name} here")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
