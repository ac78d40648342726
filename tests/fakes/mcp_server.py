"""A stdio MCP server with one tool: `python mcp_server.py` says what it is told.

Only the standard library: CLIs start it with an interpreter of their own choice.
"""

from __future__ import annotations

import json
import sys
from typing import Any

TOOL = {
    "name": "say",
    "description": "Says a text.",
    "inputSchema": {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]},
}


def answer(request: dict[str, Any]) -> dict[str, Any]:
    """The result or the error of one request."""
    method, params = request["method"], request.get("params") or {}
    if method == "initialize":
        info = {"name": "loopback", "version": "1"}
        version = params.get("protocolVersion", "2025-03-26")
        return {"result": {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": info}}
    if method == "tools/list":
        return {"result": {"tools": [TOOL]}}
    if method == "tools/call":
        text = f"said: {params['arguments']['text']}"
        return {"result": {"content": [{"type": "text", "text": text}], "isError": False}}
    return {"error": {"code": -32601, "message": f"no method {method}"}}


def main() -> None:
    for line in sys.stdin:
        message = json.loads(line)
        if "id" in message and "method" in message:
            print(json.dumps({"jsonrpc": "2.0", "id": message["id"], **answer(message)}), flush=True)


if __name__ == "__main__":
    main()
