"""What a cold start costs: CPU of importing the claim entry point, against a bare boto3 DynamoDB client.

Each figure is the least of many fresh interpreters, user and system time, less that of a bare interpreter; everything
has its bytecode. The entry point is measured as Lambda pays it: imported, and its first client made.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys

from tests.bench.harness import Row, run

ROUNDS = 15
CLIENT = "; from callboard_control.store import table; table.connection().client"
PROGRAMS = {
    "bare python": "pass",
    "bare boto3 DynamoDB client": "import boto3; boto3.client('dynamodb', region_name='us-east-1')",
    "claim entry point, imported": "import callboard_control.entrypoints.claim",
    "claim entry point, imported, client made": "import callboard_control.entrypoints.claim" + CLIENT,
    "start entry point, imported, client made": "import callboard_control.entrypoints.start" + CLIENT,
}
ENVIRONMENT = os.environ | {
    "AWS_ACCESS_KEY_ID": "x",
    "AWS_SECRET_ACCESS_KEY": "x",
    "AWS_REGION": "us-east-1",
    "AWS_EC2_METADATA_DISABLED": "true",
}


def cpu_ms(program: str) -> float:
    """User and system milliseconds of one interpreter that runs `program`."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-c", program], check=True, env=ENVIRONMENT)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return ((after.ru_utime - before.ru_utime) + (after.ru_stime - before.ru_stime)) * 1000


def main() -> list[Row]:
    # In turn, not one after the other: a busy machine then slows all alike.
    least = dict.fromkeys(PROGRAMS, float("inf"))
    for _ in range(ROUNDS):
        for name, program in PROGRAMS.items():
            least[name] = min(least[name], cpu_ms(program))
    bare = least["bare python"]
    above = {name: value - bare for name, value in least.items() if name != "bare python"}
    client = above["bare boto3 DynamoDB client"]
    rows = [Row("import", f"{name}, CPU above bare python", value, "ms") for name, value in above.items()]
    imported = above["claim entry point, imported"] / client
    made = above["claim entry point, imported, client made"] / client
    rows.append(Row("import", "claim imported / bare client made", imported, "×", "≤ 1.5 ×", f"least of {ROUNDS}"))
    rows.append(Row("import", "claim imported and client made / bare client made", made, "×", "", "as Lambda pays it"))
    return rows


if __name__ == "__main__":
    run(main)
