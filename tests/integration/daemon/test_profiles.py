"""Runtime profiles in the real daemon: what it offers, what it does when they change, and when nobody can say."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fakes.cli import fake_cli
from tests.fakes.control_plane import ControlPlane, Fault
from tests.fakes.daemon_process import DaemonProcess
from tests.integration.daemon.conftest import MakeDaemon

ANSWERS = """
init()
prompt()
text("working")
result("from " + " ".join([os.path.basename(sys.argv[0]), *sys.argv[1:2]]))
"""


@pytest.fixture
def tools(tmp_path: Path) -> Path:
    """A folder on the daemon's PATH with one command that speaks claude's protocol."""
    folder = tmp_path / "tools"
    folder.mkdir()
    fake_cli(folder, ANSWERS, "team-claude")
    return folder


def with_tools(daemon: DaemonProcess, tools: Path) -> DaemonProcess:
    daemon.env |= {"PATH": f"{tools}:{daemon.env['PATH']}", "IS_SANDBOX": "1"}
    return daemon


def providers(plane: ControlPlane) -> set[str]:
    with plane.changed:
        return {runtime.rpartition("-")[2] for runtime in plane.online}


def test_a_machine_with_nothing_but_a_profile_works(plane: ControlPlane, make_daemon: MakeDaemon, tools: Path) -> None:
    plane.profile("team", "team-claude", fixed_args=["start"])
    with_tools(make_daemon(providers="claude"), tools).start()
    ended = plane.wait_ended(plane.enqueue("go", provider="claude"), 40)
    assert ended.ending["output"] == "from team-claude start"
    assert providers(plane) == {"team"}


def test_a_machine_with_nothing_at_all_says_so_and_ends(plane: ControlPlane, make_daemon: MakeDaemon) -> None:
    daemon = make_daemon(providers="claude").start(ready=False)
    assert daemon.process is not None
    assert daemon.process.wait(30) != 0
    assert "no coding-agent CLI was found" in daemon.output()


def test_a_profile_made_while_the_daemon_runs_is_offered_after_a_heartbeat_and_a_changed_one_is_what_runs(
    plane: ControlPlane, make_daemon: MakeDaemon, tools: Path
) -> None:
    with_tools(make_daemon(), tools).start()
    plane.profile("team", "team-claude", fixed_args=["one"])
    assert plane.wait_ended(plane.enqueue("go", provider="claude"), 40).ending["output"] == "from team-claude one"
    registered = plane.count("register")
    plane.profile("team", "team-claude", fixed_args=["two"])
    plane.wait_for(lambda: plane.count("register") > registered)
    assert plane.wait_ended(plane.enqueue("go", provider="claude"), 40).ending["output"] == "from team-claude two"


def test_a_claim_that_is_held_is_made_anew_for_a_runtime_that_came_and_under_its_own_id(
    plane: ControlPlane, make_daemon: MakeDaemon, tools: Path
) -> None:
    """Or a new runtime's first task would wait until the server lets go of a claim made without it."""
    with_tools(make_daemon(), tools).start()
    plane.wait_for(lambda: plane.count("claim") == 1)
    plane.profile("team", "team-claude")
    plane.wait_for(lambda: len(plane.claimed_for) == 2)
    assert [len(runtimes) for _, runtimes in plane.claimed_for] == [1, 2]
    assert len({claim for claim, _ in plane.claimed_for}) == 1


def test_a_profile_disabled_between_the_question_and_the_registration_holds_nothing_up(
    plane: ControlPlane, make_daemon: MakeDaemon, tools: Path
) -> None:
    plane.profile("team", "team-claude")
    daemon = with_tools(make_daemon(), tools).start()
    plane.wait_for(lambda: "team" in providers(plane))
    plane.profile("team", "team-claude", enabled=False)
    plane.wait_for(lambda: plane.count("runtime-profiles") >= 2)
    plane.wait_ended(plane.enqueue("go"))
    assert "cannot register" not in daemon.log()


def test_without_an_answer_about_profiles_the_machines_own_clis_are_offered(
    plane: ControlPlane, make_daemon: MakeDaemon, tools: Path
) -> None:
    plane.profile("team", "team-claude")
    plane.fail_next("runtime-profiles", Fault.UNAVAILABLE)
    daemon = with_tools(make_daemon(), tools).start()
    plane.wait_ended(plane.enqueue("go"))
    assert daemon.logged("the runtime profiles could not be asked for")
    assert providers(plane) == {"echo"}


def test_a_command_that_is_not_here_is_reported_with_the_reason_and_costs_nothing_else(
    plane: ControlPlane, make_daemon: MakeDaemon
) -> None:
    plane.profile("team", "no-such-command")
    make_daemon().start()
    plane.wait_ended(plane.enqueue("go"))
    assert "no-such-command is not on PATH" in plane.failed_profiles["team"]
