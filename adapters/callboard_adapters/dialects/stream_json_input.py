"""What goes to a CLI that speaks stream JSON: lines for its stdin."""

from __future__ import annotations

import json
from typing import Any


def encode(value: Any) -> bytes:
    """One line of the protocol. ASCII only: a raw U+2028 would end the line for some readers."""
    return json.dumps(value, ensure_ascii=True, separators=(",", ":")).encode() + b"\n"


def user_message(prompt: str) -> bytes:
    """The prompt as the protocol's input line."""
    return encode({"type": "user", "message": {"role": "user", "content": [{"type": "text", "text": prompt}]}})


def interrupt_request(request_id: str = "callboard-interrupt") -> bytes:
    return encode({"type": "control_request", "request_id": request_id, "request": {"subtype": "interrupt"}})
