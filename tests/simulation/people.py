"""The people of a simulation: they ask for work, repeat it, stop it, and change where agents work."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Any, Protocol

from tests.fakes.sim_world import Answer, World
from tests.simulation.actors import Daemon, Request, Stage
from tests.simulation.mirror import Mirror

ACTIVE_AT_MOST = 12


class Town(Stage, Protocol):
    """What people need of the simulation they live in."""

    world: World
    mirror: Mirror
    daemons: list[Daemon]

    @property
    def calm(self) -> bool:
        """Nothing goes wrong any more."""

    def tell(self, line: str) -> None:
        """Write a line of the story."""


class People:
    """`accepted` are the ids of tasks that somebody was promised."""

    def __init__(self, town: Town, agents: Collection[str]) -> None:
        self.town, self.agents = town, sorted(agents)
        self.accepted: set[str] = set()
        self.owner_left = ""

    def enqueue(self) -> None:
        rng, kinds = self.town.rng, self.town.kinds
        if len(self.town.mirror.active()) > ACTIVE_AT_MOST:
            return
        body: dict[str, Any] = {
            "agent": rng.choice(self.agents),
            "prompt": f"p{self.town.number()}",
            "priority": rng.choice([0, 0, 0, 2, 4]),
            "idempotency_key": f"k{self.town.number()}",
        }
        about = rng.random()
        if "issues" in kinds and about < 0.4:
            body["issue_id"] = f"i{rng.randint(1, 2)}"
        elif "chats" in kinds and about < 0.7:
            body["chat_session_id"] = "c1"
        self._ask_until_answered("enqueue", "/api/tasks", body)

    def rerun(self) -> None:
        tasks = self.town.mirror.tasks()
        if tasks and len(self.town.mirror.active()) <= ACTIVE_AT_MOST:
            path = f"/api/tasks/{self.town.rng.choice(tasks)['id']['S']}/rerun"
            self._ask_until_answered("rerun", path, {"idempotency_key": f"k{self.town.number()}"})

    def cancel(self) -> None:
        tasks = self.town.mirror.tasks()
        if tasks:
            self._ask("cancel", "POST", f"/api/tasks/{self.town.rng.choice(tasks)['id']['S']}/cancel")

    def move(self) -> None:
        """An agent works elsewhere from now on; what waits for it stays where it was made, so two machines take it."""
        to = self.town.rng.choice(self.town.daemons).machine.runtime_id
        self._ask("move", "PATCH", f"/api/agents/{self.town.rng.choice(self.agents)}", {"runtime_id": to})

    def owner_leaves_or_returns(self) -> None:
        """The last runtime is nobody's for a while: no task of it may be handed out, and none may be stuck."""
        town = self.town
        town.tell("the owner returns" if self.owner_left else "the owner leaves")
        change: dict[str, Any] = {"UpdateExpression": "REMOVE ow"}
        if self.owner_left:
            values = {":o": {"S": self.owner_left}}
            change = {"UpdateExpression": "SET ow = :o", "ExpressionAttributeValues": values}
        self.owner_left = "" if self.owner_left else town.world.me["user_id"]
        runtime_id = town.daemons[-1].machine.runtime_id
        key = {"pk": {"S": f"WS#{town.world.workspace_id}"}, "sk": {"S": f"RT#{runtime_id}"}}
        town.world.engine.execute("UpdateItem", {"TableName": "callboard", "Key": key, **change})
        town.mirror.look(town.world.engine)

    def _ask(self, name: str, method: str, path: str, body: Any = None) -> None:
        self.town.send(Request(name, method, path, body, self.town.world.token, lambda _: None))

    def _ask_until_answered(self, name: str, path: str, body: Any) -> None:
        """As somebody with an idempotency key does. What was accepted must be there in the end."""

        def then(answer: Answer | None) -> None:
            if answer is None and not self.town.calm:
                self.town.send(replace(request, answered=False))
            elif answer is not None and answer.status < 300:
                self.accepted.add(answer["id"])

        request = Request(name, "POST", path, body, self.town.world.token, then)
        self.town.send(request)
