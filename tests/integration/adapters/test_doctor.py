from __future__ import annotations

import os

from callboard_adapters import BackendConfig, create_backend
from callboard_adapters.doctor import Finding, FindingCode, Level
from tests.fakes.cli import fake_cli


async def findings(folder, provider="claude", **env: str) -> dict[FindingCode, Finding]:
    env = {"PATH": os.environ["PATH"], "HOME": str(folder), **env}
    backend = create_backend(provider, BackendConfig(executable=folder / provider, env=env))
    found = await backend.test_environment()
    assert all(f.repair for f in found if f.level is not Level.OK)
    return {f.code: f for f in found}


async def test_a_ready_provider_has_nothing_to_repair(tmp_path):
    fake_cli(tmp_path, "")
    found = await findings(tmp_path, ANTHROPIC_API_KEY="sk-canary")
    assert list(found) == [FindingCode.EXECUTABLE_FOUND, FindingCode.VERSION_OK, FindingCode.LOGIN_PRESENT]
    assert "sk-canary" not in str(found)


async def test_a_missing_executable_is_the_only_finding(tmp_path):
    assert list(await findings(tmp_path)) == [FindingCode.EXECUTABLE_MISSING]


async def test_a_file_that_cannot_be_executed_is_not_called_missing(tmp_path):
    (tmp_path / "claude").write_text("")
    assert list(await findings(tmp_path)) == [FindingCode.EXECUTABLE_NOT_RUNNABLE]


async def test_an_old_version_is_an_error_and_an_unreadable_one_a_warning(tmp_path):
    cli = tmp_path / "claude"
    for printed, code, level in (
        ("1.0.0", FindingCode.VERSION_TOO_OLD, Level.ERROR),
        ("nonsense", FindingCode.VERSION_UNREADABLE, Level.WARNING),
    ):
        cli.write_text(f"#!/bin/sh\necho {printed}\n")
        cli.chmod(0o755)
        assert (await findings(tmp_path))[code].level is level


async def test_a_login_is_found_in_a_file_or_said_to_be_unseen(tmp_path):
    fake_cli(tmp_path, "")
    assert FindingCode.LOGIN_NOT_SEEN in await findings(tmp_path)
    (tmp_path / ".claude").mkdir()
    (tmp_path / ".claude" / ".credentials.json").write_text("{}")
    (tmp_path / ".claude" / "settings.json").write_text("{}")
    found = await findings(tmp_path)
    assert FindingCode.LOGIN_PRESENT in found
    assert FindingCode.CONFIG_READABLE in found


async def test_a_configuration_that_is_no_toml_is_found_before_a_run_finds_it(tmp_path):
    cli = tmp_path / "codex"
    cli.write_text("#!/bin/sh\necho codex-cli 0.171.0\n")
    cli.chmod(0o755)
    (tmp_path / ".codex").mkdir()
    config = tmp_path / ".codex" / "config.toml"
    config.write_text('model = "m"\n')
    assert FindingCode.CONFIG_READABLE in await findings(tmp_path, "codex")
    config.write_text("model = \n")
    wrong = (await findings(tmp_path, "codex"))[FindingCode.CONFIG_INVALID]
    assert wrong.level is Level.ERROR
    assert str(config) in wrong.repair
