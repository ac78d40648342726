"""The one page there is for a browser: static, without a script, without anything of what was asked."""

from __future__ import annotations

from typing import Final

from aws_lambda_powertools.event_handler import Response

DEVICE: Final = """<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><title>Callboard: let a machine in</title>
<meta name="viewport" content="width=device-width, initial-scale=1"></head>
<body>
<h1>Let a machine in</h1>
<p>A machine that shows you a code asks to log in as you. If it was you who started it, run this where you are logged
in already, with the code it shows:</p>
<pre>callboard login --approve CODE</pre>
<p>It says who is asking, and asks you once more. If you started nothing, do nothing: a code is over after 15 minutes.
Nobody of Callboard will ever send you a code.</p>
</body>
</html>
"""


def page(text: str) -> Response[str]:
    """`text` as a page that can load, run, send and be framed by nothing."""
    return Response(
        status_code=200,
        content_type="text/html; charset=utf-8",
        body=text,
        headers={
            "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'; form-action 'none'",
            "X-Content-Type-Options": "nosniff",
            "Referrer-Policy": "no-referrer",
            "Cache-Control": "no-store",
        },
    )
