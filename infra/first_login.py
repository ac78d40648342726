"""Makes the first person of a deployed stack and prints their token, alone on stdout.

    python infra/first_login.py --stack callboard-dev --name Ann | callboard login --server <ApiUrl> --token-stdin

In the cloud nobody can be made over HTTP: no secret lies in a folder there that would prove anything. What proves it is
the right to write to the stack's table, which whoever runs this has by their own AWS login. Works once for a table;
with --back-in it lets that first person in again, when every login is lost.
"""

from __future__ import annotations

import argparse
import os
import secrets
import sys

import boto3


def main() -> int:
    options = argparse.ArgumentParser(description="Make the first person of a deployed stack.")
    options.add_argument("--stack", required=True, help="the CloudFormation stack's name")
    options.add_argument("--name", default="me", help="what the person is called")
    options.add_argument("--workspace", default="home", help="the first workspace's name")
    options.add_argument("--back-in", action="store_true", help="let the first person in once more")
    chosen = options.parse_args()
    stacks = boto3.client("cloudformation")
    [stack] = stacks.describe_stacks(StackName=chosen.stack)["Stacks"]
    outputs = {output["OutputKey"]: output["OutputValue"] for output in stack["Outputs"]}
    # Before the import: the store's models read these once. In Lambda the region is a variable; here it may be in a
    # profile, and the table is where the stack was found.
    os.environ["CALLBOARD_TABLE"] = outputs["TableName"]
    os.environ["AWS_REGION"] = stacks.meta.region_name
    print(f"stack {chosen.stack}: {outputs['ApiUrl']}", file=sys.stderr)
    return make(chosen.name, chosen.workspace, back_in=chosen.back_in)


def make(name: str, workspace: str, *, back_in: bool = False) -> int:
    from callboard_control import ports
    from callboard_control.errors import ApiError
    from callboard_control.identity import first_login
    from callboard_control.store import table
    from callboard_control.store.models import SystemItem
    from callboard_wire.api import BootstrapRequest

    if not back_in and table.get(SystemItem, *first_login.FIRST) is not None:
        print("Somebody has logged in here already; --back-in lets that first person in again.", file=sys.stderr)
        return 1
    secret = secrets.token_urlsafe(32)  # given and checked in this one process: nothing to keep
    ports.use(ports.Ports(bootstrap_secret=lambda: secret))
    try:
        made = first_login.bootstrap(BootstrapRequest(secret=secret, name=name, workspace=workspace))
    except ApiError as refused:
        print(refused.message, file=sys.stderr)
        return 1
    print(made.token)
    return 0


if __name__ == "__main__":
    sys.exit(main())
