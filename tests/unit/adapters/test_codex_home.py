"""The CODEX_HOME of a run: what is linked, what is copied, what the configuration says."""

from __future__ import annotations

import tomllib

import pytest

from callboard_adapters import LaunchRefused
from callboard_adapters.base import FileContent, FileLink
from callboard_adapters.codex_args import owned_settings
from callboard_adapters.codex_home import BEGIN, END, Home, compose, look_at, mcp_servers, shell_variables

SHARED = "/home/somebody/.codex"
STDIO = {"command": "npx", "args": ["-y", "server"], "env": {"TOKEN": "s3cret"}}


def composed(user: str = "", mcp: object = None, version: tuple[int, int, int] | None = (0, 171, 0)) -> dict:
    text = compose(user.encode(), SHARED, mcp, ["HOME", "PATH"], "danger-full-access", version)
    return tomllib.loads(text.decode())


def home(*names: str, own: bool = True, **content: bytes) -> Home:
    made = Home(SHARED, "/root/codex-home", own_sessions=own)
    made.found([FileContent(f"{SHARED}/{n}", 1, content.get(n.replace(".", "_"), b"")) for n in names])
    return made


def test_the_users_settings_stay_and_ours_lie_over_them():
    config = composed(
        'model = "m"\nsandbox_mode = "read-only"\n[features]\nmemories = true\nweb = true\n[tui]\nx = 1\n'
    )
    assert (config["model"], config["tui"]) == ("m", {"x": 1})
    assert (config["sandbox_mode"], config["approval_policy"]) == ("danger-full-access", "never")
    assert config["features"]["memories"] is False
    assert config["features"]["web"] is True
    assert config["memories"] == {"generate_memories": False, "use_memories": False}


def test_sub_agents_are_off_in_the_words_of_the_version():
    assert composed(version=(0, 171, 0))["agents"] == {"enabled": False}
    assert "multi_agent" not in composed(version=(0, 171, 0))["features"]
    for old in ((0, 118, 0), None):
        config = composed(version=old)
        assert config["features"]["multi_agent"] is False
        assert "agents" not in config


def test_the_shell_sees_exactly_the_named_variables():
    config = composed(
        '[shell_environment_policy]\ninherit = "none"\n[profiles.p.shell_environment_policy]\nset = {A="1"}'
    )
    policy = {"inherit": "all", "ignore_default_excludes": True, "include_only": ["HOME", "PATH"]}
    assert config["shell_environment_policy"] == policy
    assert config["profiles"] == {"p": {}}


def test_skill_entries_of_the_desktop_app_do_not_stop_the_thread():
    assert composed("[skills]\na = 1\n[[skills.config]]\nenabled = false\n")["skills"] == {"a": 1}


def test_files_named_relative_to_the_users_folder_are_found_from_the_new_one():
    config = composed('model_catalog_json = "models.json"\nmodel_instructions_file = "/abs/x.md"\n')
    assert config["model_catalog_json"] == f"{SHARED}/models.json"
    assert config["model_instructions_file"] == "/abs/x.md"


def test_without_a_managed_set_the_users_servers_are_inherited():
    user = '[mcp_servers.mine]\ncommand = "x"\n'
    assert composed(user)["mcp_servers"] == {"mine": {"command": "x"}}
    assert BEGIN not in compose(user.encode(), SHARED, None, [], "read-only").decode()


@pytest.mark.parametrize("mcp", [{}, {"mcpServers": {}}, {"mcpServers": None}])
def test_an_empty_managed_set_allows_no_server(mcp):
    user = '[mcp_servers.mine]\ncommand = "x"\n[mcp_servers.mine.env]\nK = "v"\n'
    user += '[profiles.p.mcp_servers.q]\ncommand = "y"\n'
    text = compose(user.encode(), SHARED, mcp, [], "read-only").decode()
    assert "mcp_servers" not in text
    assert text.endswith(f"{BEGIN}\n{END}\n")


def test_a_managed_set_replaces_the_inherited_one_between_its_markers():
    mcp = {
        "mcpServers": {
            "b": {"url": "https://x/mcp", "type": "http", "headers": {"A": "s"}},
            "a": {**STDIO, "tools": ["t"]},
        }
    }
    text = compose(b'[mcp_servers.mine]\ncommand = "x"\n', SHARED, mcp, [], "read-only").decode()
    block = text.partition(BEGIN)[2].partition(END)[0]
    assert tomllib.loads(block)["mcp_servers"] == tomllib.loads(text)["mcp_servers"]
    assert tomllib.loads(block)["mcp_servers"] == {
        "a": STDIO,
        "b": {"url": "https://x/mcp", "http_headers": {"A": "s"}},
    }


@pytest.mark.parametrize(
    "entries",
    [
        {"two words": STDIO},
        {"a.b": STDIO},
        {"ключ": STDIO},
        {"a": {}},
        {"a": "npx"},
        {"a": {**STDIO, "env": {"TOKEN": None, "OTHER": "s3cret"}}},
        {"a": {**STDIO, "args": ["s3cret", None]}},
        ["a"],
    ],
)
def test_a_set_that_codex_could_not_read_is_refused_without_its_values(entries):
    with pytest.raises(LaunchRefused) as caught:
        mcp_servers({"mcpServers": entries})
    assert "s3cret" not in str(caught.value)


@pytest.mark.parametrize("user", [b"a = ", b"\xff\xfe", b"[a]\n[a]\n"])
def test_a_configuration_codex_cannot_read_is_refused_before_the_launch(user):
    with pytest.raises(LaunchRefused, match=r"config\.toml"):
        compose(user, SHARED, None, [], "read-only")


def test_the_login_is_linked_and_never_copied():
    made = home("auth.json", "config.toml", "AGENTS.md", auth_json=b"token")
    files = made.files(mcp=None, variables=[], sandbox="read-only", version=None)
    assert [f.path for f in files] == ["/root/codex-home/config.toml", "/root/codex-home/AGENTS.md"]
    assert {f.mode for f in files} == {0o600}
    assert {f.after for f in files} == {"remove"}
    assert made.links() == [FileLink("/root/codex-home/auth.json", f"{SHARED}/auth.json")]


def test_no_login_leaves_no_dangling_link():
    assert home("config.toml").links() == []


def test_conversations_stay_with_the_user_where_there_is_no_folder_of_the_task():
    (link,) = home(own=False).links()
    assert (link.path, link.target, link.directory) == ("/root/codex-home/sessions", f"{SHARED}/sessions", True)


def test_the_users_skills_are_linked_one_by_one():
    links = home("skills/b/SKILL.md", "skills/a/SKILL.md").links()
    assert [link.path for link in links] == ["/root/codex-home/skills/a", "/root/codex-home/skills/b"]
    assert links[0].target == f"{SHARED}/skills/a"


def test_only_sizes_are_asked_of_the_login():
    content, sizes = look_at(SHARED)
    assert f"{SHARED}/auth.json" in sizes.patterns
    assert sizes.max_bytes == 0
    assert f"{SHARED}/auth.json" not in content.patterns


def test_the_model_keys_are_hidden_from_the_shell_and_the_tasks_token_is_not():
    env = {"PATH": "", "MULTICA_TOKEN": "m", "OPENAI_API_KEY": "k", "MY_KEY": "u", "bad-name": "", "GH_TOKEN": "g"}
    chosen = shell_variables(env, {"OPENAI_API_KEY", "MY_KEY"}, chosen=True)
    assert chosen == ["CALLBOARD_RUN_ID", "GH_TOKEN", "MULTICA_TOKEN", "PATH", "PWD"]
    whatever = shell_variables(env, {"OPENAI_API_KEY"}, chosen=False)
    assert whatever == ["CALLBOARD_RUN_ID", "MULTICA_TOKEN", "PATH", "PWD"]


def test_the_variables_of_the_users_own_model_providers_hold_keys():
    made = home("config.toml", config_toml=b'[model_providers.x]\nenv_key = "X_KEY"\n[model_providers.y]\nname = "y"\n')
    assert made.secret_variables() == {"X_KEY"}


@pytest.mark.parametrize(
    "words",
    [
        ["-c", "mcp_servers.a.command=s3cret"],
        ["-cmcp_servers.a.command=s3cret"],
        ["-c=mcp_servers.a.command=s3cret"],
        ["--config", 'mcp_servers."a b".command=s3cret'],
        ['--config="mcp_servers".a=s3cret'],
        ["-c", " mcp_servers = {}"],
        ["-c", "profiles.work.mcp_servers.a.command=s3cret"],
        ["-c", "shell_environment_policy.inherit=all"],
        ["-c", "profiles.p.shell_environment_policy={}"],
    ],
)
def test_a_setting_this_run_owns_is_dropped_in_every_spelling(words):
    kept, notices = owned_settings(["-c", "model=x", *words, "--enable", "web"], mcp=True, fast=False)
    assert kept == ["-c", "model=x", "--enable", "web"]
    assert len(notices) == 1
    assert "s3cret" not in notices[0].content


def test_other_settings_pass():
    words = ["-c", "mcp_servers.a.command=x", "-c", "tui.x=1", "--disable", "fast_mode", "-c"]
    assert owned_settings(words, mcp=False, fast=False) == (words, [])


@pytest.mark.parametrize(
    "words",
    [
        ["--disable", "fast_mode"],
        ["--disable=fast_mode"],
        ["-c", "features.fast_mode=false"],
        ["--enable", "fast_mode"],
    ],
)
def test_the_fast_tier_cannot_be_switched_off_beside_itself(words):
    assert owned_settings(words, mcp=False, fast=True)[0] == []
