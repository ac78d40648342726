"""The first person of a deployed stack, made by whoever may write to its table."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from infra import first_login
from tests.fakes.sim_world import World

ROOT = Path(__file__).parents[3]
STACK = """<DescribeStacksResponse><DescribeStacksResult><Stacks><member>
  <StackName>callboard-dev</StackName><CreationTime>2026-01-01T00:00:00Z</CreationTime><StackStatus>CREATE_COMPLETE</StackStatus>
  <Outputs>
    <member><OutputKey>ApiUrl</OutputKey><OutputValue>https://x</OutputValue></member>
    <member><OutputKey>TableName</OutputKey><OutputValue>the-table</OutputValue></member>
  </Outputs>
</member></Stacks></DescribeStacksResult></DescribeStacksResponse>"""


@contextmanager
def aws() -> Iterator[tuple[str, list[tuple[str, str, str]]]]:
    """An address that answers for CloudFormation and refuses everything else; (region, service, body) of what it was
    asked."""
    asked: list[tuple[str, str, str]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"])).decode()
            scope = re.search(r"Credential=[^/]+/[0-9]+/([^/]+)/([^/]+)/", self.headers["Authorization"])
            assert scope is not None
            asked.append((scope[1], scope[2], body))
            known = scope[2] == "cloudformation"
            answer = STACK if known else '{"__type": "x#ResourceNotFoundException"}'
            self.send_response(200 if known else 400)
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer.encode())

        def log_message(self, *_: object) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}", asked
        server.shutdown()


def test_the_table_is_looked_for_in_the_region_where_the_stack_is(tmp_path: Path) -> None:
    """A person's region is in their profile; what Lambda has as a variable is not there."""
    (tmp_path / "config").write_text("[default]\nregion = eu-central-1\n")
    with aws() as (address, asked):
        env = {name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "CALLBOARD_"))}
        env |= {
            "AWS_CONFIG_FILE": str(tmp_path / "config"),
            "AWS_ACCESS_KEY_ID": "x",
            "AWS_SECRET_ACCESS_KEY": "x",
            "AWS_ENDPOINT_URL": address,
            "PYTHONPATH": str(ROOT / "functions"),
        }
        script = [sys.executable, str(ROOT / "infra" / "first_login.py"), "--stack", "callboard-dev"]
        subprocess.run(script, env=env, cwd=tmp_path, capture_output=True, timeout=50, check=False)
    assert {(region, service) for region, service, _ in asked} == {
        ("eu-central-1", "cloudformation"),
        ("eu-central-1", "dynamodb"),
    }
    assert all("the-table" in body for _, service, body in asked if service == "dynamodb")


def test_the_first_person_is_made_once_and_let_back_in_whenever_asked(capsys: pytest.CaptureFixture[str]) -> None:
    world = World(bootstrap=False)

    def made(code: int, **options: bool) -> str:
        assert first_login.make("Ann", "home", **options) == code
        return capsys.readouterr().out.strip()

    first = world.ok("GET", "/api/me", token=made(0))
    assert made(1) == "", "once for a table"
    for _ in range(2):
        assert world.ok("GET", "/api/me", token=made(0, back_in=True))["user_id"] == first["user_id"]
    assert made(1) == ""
    world.close()
