"""The login, the secrets and the conversations of codex runs, on a real disk."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest

from callboard_adapters import BackendConfig, ExecOptions, LaunchRefused, Result, RunStatus, create_backend
from tests.fakes.codex_server import codex_server, starts

ROTATES = """
import fcntl
auth = os.environ["CODEX_HOME"] + "/auth.json"
used = HERE + "/used"
with open(HERE + "/lock", "w") as lock:
    fcntl.flock(lock, fcntl.LOCK_EX)
    token = open(auth).read()
    known = open(used).read().split() if os.path.exists(used) else []
    if token in known:
        os.write(2, b"refresh token was already used")
        sys.exit(1)
    with open(used, "a") as file:
        file.write(token + "\\n")
    fresh = "token-" + str(len(known) + 1)
    if os.environ.get("BY_RENAME"):
        with open(auth + ".new", "w") as file:
            file.write(fresh)
        os.replace(auth + ".new", auth)
    else:
        with open(auth, "w") as file:
            file.write(fresh)
begin(); say_text("in"); done(); until_eof()
"""


async def run(folder: Path, cli: Path, root: Path | None, env: dict[str, str] | None = None, **options: Any) -> Result:
    base = {"PATH": os.environ["PATH"], "HOME": str(folder), **(env or {})}
    if root is not None:
        root.mkdir(exist_ok=True)
        base["CALLBOARD_ENV_ROOT"] = str(root)
    backend = create_backend("codex", BackendConfig(executable=cli, env=base))
    session = await backend.execute("do it", ExecOptions(**{"cwd": folder, "timeout": 20, **options}))
    return await session.result()


def logged_in(folder: Path, **files: str) -> Path:
    shared = folder / ".codex"
    shared.mkdir()
    (shared / "auth.json").write_text("token-0")
    for name, text in files.items():
        (shared / name.replace("_", ".")).write_text(text)
    return shared


async def test_a_login_that_rotates_at_every_start_survives_parallel_runs(tmp_path):
    shared = logged_in(tmp_path)
    cli = codex_server(tmp_path, ROTATES)
    both = await asyncio.gather(*(run(tmp_path, cli, tmp_path / f"root-{n}") for n in range(2)))
    third = await run(tmp_path, cli, tmp_path / "root-0")
    assert [r.status for r in (*both, third)] == [RunStatus.COMPLETED] * 3
    assert (shared / "auth.json").read_text() == "token-3"
    assert not (shared / "auth.json").is_symlink()
    assert not list(tmp_path.glob("root-*/codex-home/auth.json"))


async def test_a_login_that_was_saved_over_the_link_is_brought_home(tmp_path):
    shared = logged_in(tmp_path)
    cli = codex_server(tmp_path, ROTATES)
    for n in range(3):
        result = await run(tmp_path, cli, tmp_path / f"root-{n}", {"BY_RENAME": "1"})
        assert result.status is RunStatus.COMPLETED, result
    assert (shared / "auth.json").read_text() == "token-3"
    assert not list(tmp_path.glob("root-*/codex-home/auth.json"))


LOOKS = """
home = os.environ["CODEX_HOME"]
def report():
    config = home + "/config.toml"
    argv = open("/proc/self/cmdline").read()
    return json.dumps({
        "mode": oct(os.stat(config).st_mode & 0o777), "config": open(config).read(), "argv": argv,
        "home": home, "shared": os.environ.get("SHARED"), "entries": sorted(os.listdir(home)),
    })
begin(); say_text(report()); done(); until_eof()
"""


async def seen(folder: Path, root: Path | None, **options: Any) -> dict[str, Any]:
    import json

    result = await run(folder, codex_server(folder, LOOKS), root, **options)
    assert result.status is RunStatus.COMPLETED, result
    return dict(json.loads(result.output))


async def test_secrets_of_mcp_servers_are_in_a_private_file_and_gone_with_the_run(tmp_path):
    logged_in(tmp_path, config_toml='model = "m"\n[mcp_servers.mine]\ncommand = "x"\n')
    server = {"command": "npx", "env": {"TOKEN": "canary-7781"}}
    root = tmp_path / "root"
    found = await seen(
        tmp_path, root, mcp_config={"mcpServers": {"docs": server}}, custom_args=["-c", "mcp_servers={}"]
    )
    assert found["mode"] == "0o600"
    assert "canary-7781" in found["config"]
    assert "mine" not in found["config"]
    assert 'model = "m"' in found["config"]
    assert "canary" not in found["argv"]
    assert "mcp_servers={}" not in found["argv"]
    assert "do it" not in found["argv"]
    left = [p for p in root.rglob("*") if p.is_file()]
    assert not [p for p in left if b"canary" in p.read_bytes()]
    assert (tmp_path / ".codex" / "config.toml").read_text().startswith('model = "m"\n[mcp_servers.mine]')


async def test_the_home_of_a_task_stays_with_its_folder_and_is_used_again(tmp_path):
    root = tmp_path / "root"
    assert (await seen(tmp_path, root))["home"] == f"{root}/codex-home"
    (root / "codex-home" / "sessions").mkdir()
    (root / "codex-home" / "sessions" / "rollout-x.jsonl").write_text("{}")
    assert "sessions" in (await seen(tmp_path, root))["entries"]
    assert (root / "codex-home" / "sessions" / "rollout-x.jsonl").exists()


async def test_without_a_task_folder_conversations_are_the_users_and_the_rest_is_the_runs(tmp_path):
    shared = logged_in(tmp_path)
    found = await seen(tmp_path, None)
    assert found["home"] not in (str(shared), str(tmp_path))
    assert {"auth.json", "config.toml", "sessions"} <= set(found["entries"])
    assert not Path(found["home"]).exists()
    assert (shared / "sessions").is_dir()


async def test_a_codex_home_of_the_users_own_is_the_one_that_is_linked(tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "auth.json").write_text("token-0")
    cli = codex_server(tmp_path, ROTATES)
    await run(tmp_path, cli, tmp_path / "root", {"CODEX_HOME": str(tmp_path / "elsewhere")})
    assert (tmp_path / "elsewhere" / "auth.json").read_text() == "token-1"


@pytest.mark.parametrize(
    ("setting", "value"),
    [("env", {"CALLBOARD_CODEX_SANDBOX": "wide-open"}), ("mcp_config", {"mcpServers": {"a": {"command": None}}})],
)
async def test_what_cannot_work_is_refused_before_anything_starts(tmp_path, setting, value):
    cli = codex_server(tmp_path, ROTATES)
    with pytest.raises(LaunchRefused):
        await run(tmp_path, cli, tmp_path / "root", **{setting: value})
    assert starts(tmp_path) == 0
    assert not [p for p in (tmp_path / "root").rglob("*") if p.is_file()]
