from __future__ import annotations

from pathlib import Path

import pytest

from callboard_adapters import redact

PEM = "-----BEGIN RSA PRIVATE KEY-----\nMIIB\nAAAA\n-----END RSA PRIVATE KEY-----"
SECRETS = [
    "AKIA" + "ABCDEFGH12345678",
    "aws_secret_access_key = " + "a" * 40,
    PEM,
    "ghp_" + "a" * 36,
    "ghs_" + "b" * 40,
    "github_pat_" + "c" * 30,
    "sk-" + "d" * 24,
    "sk-ant-api03-" + "e" * 24,
    "xoxb-" + "1" * 12,
    "xapp-" + "1" * 12,
    "glpat-" + "f" * 20,
    "AIza" + "g" * 35,
    "sk_live_" + "h" * 20,
    "rk_live_" + "i" * 20,
    "eyJhbGciOiJI.eyJzdWIiOiIxMjM0.SflKxwRJSMeKKF2",
    "Bearer abcdefghijklmnop",
    "bearer abcdefghijklmnop",
    "postgres://user:hunter2@db/x",
    "mongodb+srv://u:hunter2@db",
    "redis://:hunter2@cache:6379",
    "OPENAI_API_KEY=hunter2hunter2",
    "password: hunter2",
    'DB_PASSWORD="two words"',
    "MULTICA_TOKEN=mat_1234_abcdefghijklmnop",
    "mat_0123456789abcdef_0123456789abcdef",
]


@pytest.mark.parametrize("secret", SECRETS)
def test_a_secret_is_masked_wherever_it_stands(secret):
    cleaned = redact.text(f"before {secret} after")
    assert cleaned.startswith("before ")
    assert cleaned.endswith(" after")
    assert redact.MASK in cleaned
    for part in ("hunter2", "two words", "AAAA", "abcdefghijklmnop", "dddddd", "aaaaaa"):
        assert part not in cleaned


@pytest.mark.parametrize(
    "harmless",
    [
        "pk_live_" + "a" * 20,
        "the token count is 12",
        "a key to success",
        "https://example.org/x",
        "ey.ey.ey",
        "sk-short",
    ],
)
def test_what_is_no_secret_stays(harmless):
    assert redact.text(harmless) == harmless


def test_nested_values_are_copied_and_cleaned_by_name_and_by_shape():
    given = {
        "command": "curl -H 'Authorization: Bearer abcdefghijk'",
        "env": [{"api_key": "hunter2", "n": 1}],
        "x": None,
    }
    cleaned = redact.value(given)
    assert "abcdefghijk" not in str(cleaned)
    assert cleaned["env"] == [{"api_key": redact.MASK, "n": 1}]
    assert given["env"] == [{"api_key": "hunter2", "n": 1}]


def test_bottomless_data_ends():
    deep: dict[str, object] = {}
    inner = deep
    for _ in range(100):
        inner["x"] = inner = {}
    assert redact.MASK in str(redact.value(deep))


def test_diagnostics_lose_control_characters_and_header_credentials():
    told = redact.diagnostic('\x1b[31mauthorization: Basic dXNlcg==\n{"token":"hunter2","a":1}\tend')
    assert "\x1b" not in told
    assert "dXNlcg" not in told
    assert "hunter2" not in told
    assert told.endswith("\tend")


def test_the_users_name_goes_out_of_the_home_path(monkeypatch):
    monkeypatch.setattr(Path, "home", classmethod(lambda cls: Path("/home/jane")))
    assert redact.text("/home/jane/project/x.py") == "/home/****/project/x.py"
