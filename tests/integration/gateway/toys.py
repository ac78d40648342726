"""Toy functions behind a real gateway: they show what a handler is given, fail, wait and sleep."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from callboard_control.embedded.doorbell import LocalDoorbell
from callboard_control.embedded.folder import DataFolder
from callboard_control.embedded.front import Front
from callboard_control.embedded.gateway import Gateway
from callboard_control.embedded.routes import Function
from callboard_control.embedded.scheduler import Scheduler
from callboard_control.resolver import Resolver


@dataclass
class Toys:
    """A gateway over toy functions. `give` puts work up for a runtime and rings; a held `POST /api/claim` takes it."""

    doorbell: LocalDoorbell = field(default_factory=LocalDoorbell)
    work: list[str] = field(default_factory=list)
    released: threading.Event = field(default_factory=threading.Event)
    answers: dict[str, Any] = field(default_factory=dict)

    def give(self, item: str, runtime_id: str = "r1") -> None:
        self.work.append(item)
        self.doorbell.ring(runtime_id)

    def functions(self) -> list[Function]:
        return [
            Function("echo", self._echo, frozenset({("POST", "/api/echo/{name}"), ("GET", "/api/echo/{name}")})),
            Function("answer", self._answer, frozenset({("GET", "/api/answers/{which}")})),
            Function("slow", self._slow, frozenset({("POST", "/api/slow")})),
            Function("nap", self._nap, frozenset({("POST", "/api/nap")})),
            Function("claim", self._claim, frozenset({("POST", "/api/claim")}), timeout_s=28, held=True),
            Function("things", resolver().resolve, frozenset({("POST", "/api/things"), ("GET", "/api/things/{id}")})),
        ]

    def gateway(
        self, data: Path, *, sweep: Callable[[dict[str, Any], Any], Any] | None = None, **front_options: Any
    ) -> Gateway:
        folder = DataFolder(data)
        folder.open()
        front = Front(self.functions(), **front_options)
        scheduler = Scheduler(sweep, front.metrics, every_s=0.05) if sweep else None
        return Gateway(folder, front, self.doorbell, scheduler=scheduler)

    def _echo(self, event: dict[str, Any], context: Any) -> dict[str, Any]:
        return {
            "event": event,
            "context": {
                "function_name": context.function_name,
                "aws_request_id": context.aws_request_id,
                "memory_limit_in_mb": context.memory_limit_in_mb,
                "invoked_function_arn": context.invoked_function_arn,
                "remaining_ms": context.get_remaining_time_in_millis(),
            },
        }

    def _answer(self, event: dict[str, Any], context: Any) -> Any:
        answer = self.answers[event["pathParameters"]["which"]]
        if isinstance(answer, Exception):
            raise answer
        return answer

    def _slow(self, event: dict[str, Any], context: Any) -> dict[str, Any]:
        self.released.wait(20)
        return {"statusCode": 200, "body": "done"}

    def _nap(self, event: dict[str, Any], context: Any) -> dict[str, Any]:
        seconds = json.loads(event["body"])["seconds"]
        time.sleep(seconds)
        return {"slept": seconds}

    def _claim(self, event: dict[str, Any], context: Any) -> dict[str, Any]:
        """Holds like the real one: look, wait for the bell, look again, within `wait` and what Lambda leaves."""
        wanted = json.loads(event["body"])
        deadline = time.monotonic() + min(wanted["wait"], context.get_remaining_time_in_millis() / 1000 - 5)
        runtime_ids = [wanted.get("runtime_id", "r1")]
        while True:
            seen = self.doorbell.sample(runtime_ids)
            taken = self._take()
            left_s = deadline - time.monotonic()
            if taken or left_s <= 0 or not self.doorbell.wait(seen, left_s):
                return {"statusCode": 200, "body": json.dumps({"task": taken})}

    def _take(self) -> str | None:
        try:
            return self.work.pop()
        except IndexError:
            return None


def resolver() -> Resolver:
    app = Resolver(enable_validation=True)

    @app.get("/api/things/<id>")
    def get_thing(id: str) -> dict[str, str]:
        return {"id": id, "tags": app.current_event.query_string_parameters.get("tag", "")}

    @app.post("/api/things")
    def create_thing(name: str) -> tuple[dict[str, str], int]:
        return {"name": name}, 201

    return app
