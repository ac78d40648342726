"""Two workspaces with everybody who may call: what the matrix and the canaries play on.

In `home` every name and text holds the word `HUSH`, so that a leak to the other tenant can be searched for.
"""

from __future__ import annotations

import json
from itertools import count
from pathlib import Path
from typing import Any

from callboard_control.embedded.secrets import LocalSecrets
from tests.fakes.sim_world import Answer, Clock, Held, Machine, World

HUSH = "hush"


class Stage:
    """`tokens`: actor → token. `things`: what braces in a row stand for."""

    def __init__(self, folder: Path, *, faults: Any = None) -> None:
        secrets = LocalSecrets(folder / "secrets.key")
        self.world = World(folder / "table.sqlite", clock=Clock(), secrets=secrets, faults=faults)
        self._unique = count()
        self._held: Held | None = None
        self._is = ""
        self.tokens: dict[str, str] = {"nob": "", "own": self.world.token}
        self.users: dict[str, str] = {}
        self.things: dict[str, Any] = {}
        self._people()
        self._fleet()
        self._agents()
        self._neighbours()
        self.tokens["bad"] = self.world.token[:-1] + ("0" if self.world.token[-1] != "0" else "1")

    def close(self) -> None:
        self.world.close()

    # ── who is there ─────────────────────────────────────────────────────────

    def _people(self) -> None:
        code = self.world.ok("POST", "/api/invitations", {"max_uses": 100})["code"]
        self.things["invitation"] = code
        admins = self.world.ok("POST", "/api/invitations", {"role": "admin"})["code"]
        for actor, link in (("adm", admins), ("mch", code), ("aut", code), ("mem", code)):
            joined = self.world.ok("POST", "/api/invitations/accept", {"code": link, "name": f"{HUSH} {actor}"}, "")
            self.tokens[actor], self.users[actor] = joined["token"], joined["user_id"]

    def _fleet(self) -> None:
        runtimes = [{"name": f"{HUSH} {name}", "type": name} for name in ("echo", "spare")]
        body = {"daemon_id": "laptop", "device_name": HUSH, "runtimes": runtimes}
        registered = self.world.ok("POST", "/api/daemon/register", body, self.tokens["mch"])
        used, spare = (runtime["id"] for runtime in registered["runtimes"])
        self.machine = Machine(self.world, "laptop", registered["daemon_token"], used)
        self.things |= {"runtime_id": used, "spare_runtime_id": spare}
        self.world.ok("PATCH", f"/api/runtimes/{used}", {"visibility": "public"}, self.tokens["mch"])
        self._let_in()
        self.things["workspace_id"] = self.world.workspace_id
        self.tokens["dmn"] = self.machine.token
        self.tokens["dm2"] = self.world.machine("desktop").token

    def _idle_runtime(self) -> str:
        """One of a machine that is switched off, the same member's."""
        body = {"daemon_id": "attic", "device_name": HUSH, "runtimes": [{"name": HUSH, "type": "echo"}]}
        registered = self.world.ok("POST", "/api/daemon/register", body, self.tokens["mch"])
        idle = [runtime["id"] for runtime in registered["runtimes"]]
        self.world.ok("POST", "/api/daemon/deregister", {"runtime_ids": idle}, registered["daemon_token"])
        return str(idle[0])

    def _profile(self, needs: str) -> None:
        path = f"/api/workspaces/{self.world.workspace_id}/runtime-profiles"
        for profile in self.world.ok("GET", path)["items"]:
            self.world.ok("DELETE", f"{path}/{profile['id']}")
        if needs == "profile":
            body = {"display_name": "wrapped", "protocol_family": "claude", "command_name": "wrap"}
            self.things["profile_id"] = self.world.ok("POST", path, body)["id"]

    def _let_in(self) -> None:
        """Everybody may put agents on the runtime, which is for its owner to say."""
        path = f"/api/runtimes/{self.things['runtime_id']}"
        self.world.ok("PATCH", path, {"visibility": "public"}, self.tokens["mch"])

    def _agents(self) -> None:
        self.things["agent_id"] = self._agent("ada")
        self.things |= {"open": self._agent("ora", permission_mode="public_to"), "key": "fast"}
        self.things["skill_id"] = self._skill()
        skills = {"skill_ids": [self.things["skill_id"]]}
        self.world.ok("PUT", f"/api/agents/{self.things['agent_id']}/skills", skills, self.tokens["aut"])
        other = self.hold(agent=self._agent("bob"))
        self.tokens["ag2"] = other.payload["auth_token"]
        self.things["task2_id"] = other.id
        done = self.hold(issue_id="issue-1")
        self._start(done)
        assert done.say("complete", output=HUSH).status == 200
        self.things |= {"ended": done.id, "issue_id": "issue-1"}
        self.prepare("")

    def _neighbours(self) -> None:
        """The other workspace. Its owner is not of `home` any more, and its machine has the same name as ours."""
        code = self.world.ok("POST", "/api/invitations", {})["code"]
        far = self.world.ok("POST", "/api/invitations/accept", {"code": code, "name": "Far"}, "")
        theirs = {"x-workspace-id": self.world.ok("POST", "/api/workspaces", {"name": "far"}, far["token"])["id"]}
        self.world.ok("DELETE", f"/api/members/{far['user_id']}", token=far["token"])
        owner = self.world.ok("POST", "/api/tokens", {"name": "own"}, far["token"], headers=theirs)["token"]
        link = self.world.ok("POST", "/api/invitations", {}, owner)["code"]
        near = self.world.ok("POST", "/api/invitations/accept", {"code": link, "name": "Near"}, "")
        self.users |= {"ow*": far["user_id"], "me*": near["user_id"]}
        machine = self.world.machine("laptop", token=owner)
        self.world.ok("POST", "/api/agents", {"name": "eve", "runtime_id": machine.runtime_id}, owner)
        self.world.ok("POST", "/api/tasks", {"agent": "eve", "prompt": "p"}, owner)
        [task] = machine.claim()
        self.tokens |= {"ow*": owner, "me*": near["token"], "dm*": machine.token, "ag*": task.payload["auth_token"]}

    def _agent(self, name: str, **more: Any) -> str:
        body = {
            "name": f"{HUSH} {name} {next(self._unique)}",
            "runtime_id": self.machine.runtime_id,
            "max_concurrent_tasks": 50,
            "instructions": HUSH,
            **more,
        }
        return str(self.world.ok("POST", "/api/agents", body, self.tokens["aut"])["id"])

    def _skill(self) -> str:
        body = {"name": f"{HUSH} skill {next(self._unique)}", "description": HUSH, "content": HUSH}
        return str(self.world.ok("POST", "/api/skills", body, self.tokens["aut"])["id"])

    # ── what must be fresh before a call ─────────────────────────────────────

    def enqueue(self, agent: str | None = None, **more: Any) -> str:
        body = {"agent": agent or self.things["agent_id"], "prompt": HUSH, **more}
        return str(self.world.ok("POST", "/api/tasks", body, self.tokens["aut"])["id"])

    def hold(self, **more: Any) -> Held:
        """A task just claimed by the machine. What else was queued is cancelled: places are limited."""
        task = self.enqueue(**more)
        while True:
            held = {held.id: held for held in self.machine.claim(32)}
            wanted = held.pop(task, None)
            self._drop(list(held))
            if wanted or not held:
                assert wanted, "the machine does not get the task"
                return wanted

    def _drop(self, tasks: list[str]) -> None:
        if tasks:
            self.world.ok("POST", "/api/tasks/cancel", {"task_ids": tasks})

    def _start(self, held: Held) -> None:
        assert held.say("start").status == 200

    def prepare(self, needs: str) -> None:
        """Make what a row needs. A thing that no call has used up is kept."""
        state = {"started": "started", "cancelled": "cancelled"}.get(needs, "dispatched")
        if self._is != state:
            self._drop([self._held.id] if self._held else [])
            self._held = self.hold()
            self._is = state
            if state == "started":
                self._start(self._held)
            if state == "cancelled":
                self.world.ok("POST", f"/api/tasks/{self._held.id}/cancel")
        assert self._held is not None
        proof = self._held.proof
        self.things |= {"task_id": self._held.id, "claim": proof["claim_id"], "fence": proof["fence"]}
        self.tokens["agt"] = self._held.payload["auth_token"]
        match needs:
            case "token":
                self.things["token_id"] = self.world.ok("POST", "/api/tokens", {"name": "short"})["id"]
            case "login":
                started = self.world.ok("POST", "/api/device/code", {}, "")
                self.things |= {name: started[name] for name in ("device_code", "user_code")}
            case "link":
                self.things["invitation_id"] = self.world.ok("POST", "/api/invitations", {})["id"]
            case "newcomer":
                body = {"code": self.things["invitation"], "name": HUSH}
                self.things["user_id"] = self.world.ok("POST", "/api/invitations/accept", body, "")["user_id"]
            case "no_guests":
                for actor in ("ow*", "me*"):
                    self.world.call("DELETE", f"/api/members/{self.users[actor]}")
            case "spare_agent" | "archived_agent":
                self.things["spare"] = self._agent("spare")
                if needs == "archived_agent":
                    self.world.ok("POST", f"/api/agents/{self.things['spare']}/archive")
            case "public_runtime":
                self._let_in()
            case "profile" | "no_profiles":
                self._profile(needs)
            case "idle_runtime":
                self.things["idle"] = self._idle_runtime()
            case "spare_skill":
                self.things["spare_skill"] = self._skill()
            case "queued":
                self.enqueue()

    def filled(self, value: Any, needs: str) -> Any:
        """`value` with its braces filled in; ``{fence}`` becomes the number."""
        text = json.dumps(value)
        things = dict(self.things, unique=f"{HUSH} {next(self._unique)}", fresh=f"n{next(self._unique)}")
        if needs == "ended":
            things["task_id"] = things["ended"]
        if needs in ("spare_agent", "archived_agent", "open_agent"):
            things["agent_id"] = things["open" if needs == "open_agent" else "spare"]
        if needs == "idle_runtime":
            things["runtime_id"] = things["idle"]
        if needs == "spare_skill":
            things["skill_id"] = things["spare_skill"]
        text = text.replace('"{fence}"', str(things.pop("fence")))
        for name, thing in things.items():
            text = text.replace(f"{{{name}}}", str(thing))
        return json.loads(text)

    def call(self, actor: str, row: Any, headers: dict[str, str] | None = None) -> Answer:
        """Do `row` as `actor`, on things that are as the row needs them."""
        needs = row.sent.needs
        self.prepare(needs)
        path, body, query = (self.filled(value, needs) for value in (row.path, row.sent.body, row.sent.query))
        answer = self.world.call(row.method, path, body, self.tokens[actor], query=query, headers=headers)
        if answer.status < 300 and needs in ("task", "started", "cancelled"):
            self._is = "spent"
        if answer.status == 200 and "claim" in row.path:
            self._drop([task["id"] for task in answer.body.get("tasks") or [answer.body.get("task")] if task])
        if answer.status == 200 and row.path == "/api/daemon/register":
            self._learn(answer)
        return answer

    def _learn(self, answer: Answer) -> None:
        """A machine that a person registers again has a new token."""
        if answer["daemon_token"]:
            here = answer["workspace_id"] == self.world.workspace_id
            self.tokens["dmn" if here else "dm*"] = answer["daemon_token"]
            self.machine.token = self.tokens["dmn"]
