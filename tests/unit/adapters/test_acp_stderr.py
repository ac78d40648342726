"""Standard error of an ACP agent: shown, and searched for provider errors without believing echoes."""

from __future__ import annotations

import json

from callboard_adapters import MessageType
from callboard_adapters.dialects.acp_stderr import Stderr, without_echoes

BLOCK = """\
⚠️  API call failed (attempt 1/3): RateLimitError [HTTP 429]
   🔌 Provider: custom  Model: m
   📝 Error: HTTP 429: You exceeded your current quota
   📋 Details: {'message': 'You exceeded', 'code': 'insufficient_quota'}
"""


def taken(text: str) -> tuple[Stderr, list]:
    stderr = Stderr()
    return stderr, [m for line in text.splitlines() for m in stderr.take(line.encode())]


def test_a_refused_attempt_is_announced_and_is_not_final():
    stderr, messages = taken(BLOCK)
    [retry] = [m for m in messages if m.type is MessageType.STATUS]
    assert (retry.status, stderr.final) == ("retrying", False)
    assert stderr.provider_error == "HTTP 429: You exceeded your current quota"
    assert stderr.provider_code == "insufficient_quota"


def test_the_last_word_about_a_provider_is_final():
    stderr, _ = taken(BLOCK + "❌ Rate limited after 3 retries — HTTP 429: no\n")
    assert stderr.final


def test_a_record_of_level_info_is_an_echo_whatever_it_quotes():
    quoted = json.dumps({"text": "❌ HTTP 500 Non-retryable AuthenticationError (attempt 1/3)"})
    stderr, [message] = taken(f"2026-11-30 11:46:38,123 [INFO] root: {quoted}")
    assert (stderr.final, stderr.provider_error, message.level) == (False, "", "debug")


def test_a_record_of_level_error_is_examined_and_shown_as_one():
    stderr, [message] = taken("2026-11-30 11:46:38 [ERROR] agent: Non-retryable client error: HTTP 401")
    assert stderr.final
    assert message.level == "error"


def test_colours_go_empty_lines_vanish_and_a_flood_ends():
    stderr, messages = taken("\x1b[2m2026Z\x1b[0m \x1b[31mERROR\x1b[0m broken\n\n")
    assert [(m.content, m.level) for m in messages] == [("2026Z ERROR broken", "error")]
    shown = [m for _ in range(1000) for m in stderr.take(b"again")]
    assert len(shown) == 400
    assert "not shown" in shown[-1].content


def test_secrets_do_not_reach_the_log():
    _, [message] = taken("Authorization: Bearer sk-1234567890abcdefghijklmnop")
    assert "sk-1234567890" not in message.content


def test_the_tail_for_an_error_sentence_leaves_the_echoes_out():
    tail = "2026-11-30 11:46:38 [INFO] x: HTTP 500\nTraceback: boom\n2026-11-30 11:46:38 [DEBUG] y: z"
    assert without_echoes(tail) == "Traceback: boom"
