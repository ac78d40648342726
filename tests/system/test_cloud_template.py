"""template.yaml deployed: CloudFormation makes its resources, and a task lives its life through the functions and the
table it made. On ministack, an emulator of AWS that runs the handlers; not on AWS itself."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import httpx
import pytest

from infra.package import LEFT_OUT, PACKAGES
from tests.fakes import ministack
from tests.fakes.world import World

ROOT = Path(__file__).parents[2]
REGION = "us-east-1"
ACCOUNT = {
    "AWS_ACCESS_KEY_ID": "test",
    "AWS_SECRET_ACCESS_KEY": "test",
    "AWS_REGION": REGION,
    "AWS_DEFAULT_REGION": REGION,
}
pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


class ToHost(httpx.HTTPTransport):
    """Every request goes to the emulator, for the host name of an API (which no resolver here knows)."""

    def __init__(self, host: str) -> None:
        super().__init__()
        self._host = host

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        request.headers["host"] = self._host
        return super().handle_request(request)


def bundle() -> bytes:
    """Our packages as they are packed for Lambda; the emulator's interpreter has their dependencies."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for package in PACKAGES:
            for path in (ROOT / "functions" / package).rglob("*.py"):
                name = path.relative_to(ROOT / "functions").as_posix()
                if not name.startswith(LEFT_OUT):
                    archive.write(path, name)
    return packed.getvalue()


def deploy(endpoint: str) -> dict[str, str]:
    """Make the stack; its outputs."""

    def aws(service: str) -> Any:
        keys = {"aws_access_key_id": "test", "aws_secret_access_key": "test"}
        return boto3.client(service, endpoint_url=endpoint, region_name=REGION, **keys)

    aws("s3").create_bucket(Bucket="code")
    aws("s3").put_object(Bucket="code", Key="bundle.zip", Body=bundle())
    text = (ROOT / "template.yaml").read_text().replace("CodeUri: functions/", "CodeUri: s3://code/bundle.zip")
    formation = aws("cloudformation")
    capabilities = ["CAPABILITY_IAM", "CAPABILITY_AUTO_EXPAND"]
    formation.create_stack(StackName="callboard-dev", TemplateBody=text, Capabilities=capabilities)
    deadline = time.monotonic() + 120
    while True:
        [stack] = formation.describe_stacks(StackName="callboard-dev")["Stacks"]
        if not stack["StackStatus"].endswith("IN_PROGRESS"):
            break
        assert time.monotonic() < deadline, stack
        time.sleep(0.5)
    assert stack["StackStatus"] == "CREATE_COMPLETE", stack
    return {output["OutputKey"]: output["OutputValue"] for output in stack["Outputs"]}


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, dict[str, str]]]:
    folder = tmp_path_factory.mktemp("ministack")
    with ministack.running(folder, services="", LAMBDA_EXECUTOR="local") as endpoint:
        yield endpoint, deploy(endpoint)


def test_a_task_lives_its_whole_life_on_the_deployed_template(stack: tuple[str, dict[str, str]]) -> None:
    endpoint, outputs = stack
    environment = os.environ | ACCOUNT | {"AWS_ENDPOINT_URL": endpoint}

    def first_login() -> subprocess.CompletedProcess[str]:
        program = [sys.executable, str(ROOT / "infra/first_login.py"), "--stack", "callboard-dev", "--name", "Ann"]
        return subprocess.run(program, env=environment, capture_output=True, text=True, timeout=60)

    made = first_login()
    assert made.returncode == 0, made.stderr
    again = first_login()
    assert (again.returncode, again.stdout) == (1, ""), "it works once for a table"
    host = f"{outputs['ApiId']}.execute-api.localhost"
    with World(endpoint, made.stdout.strip(), transport=ToHost(host)) as world:
        done = world.live("say hello")
        assert done["status"] == "completed"
        assert done["output"] == "hello"
        assert [move["move"] for move in done["moves"]] == ["enqueue", "claim", "start", "complete"]
        [message] = world.call("GET", f"/api/tasks/{done['id']}/messages", world.person)["items"]
        assert message["content"] == "hello"
