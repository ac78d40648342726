"""The CLI: repeats its prompt, as JSON lines with --json. A prompt of `refuse` is answered with an error."""

from __future__ import annotations

import json
import sys
import uuid


def main() -> int:
    if "--version" in sys.argv:
        sys.stdout.write("parrot 0.1.0\n")
        return 0
    prompt = sys.stdin.read()
    if "--json" not in sys.argv:
        sys.stdout.write(prompt)
        return 0
    say(type="start", session=str(uuid.uuid4()))
    if prompt.strip() == "refuse":
        say(type="error", status=429, text="too many crackers")
        return 1
    for word in prompt.split():
        say(type="text", text=word)
    say(type="text", text=prompt)
    say(type="done")
    return 0


def say(**event: object) -> None:
    sys.stdout.write(json.dumps(event) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
