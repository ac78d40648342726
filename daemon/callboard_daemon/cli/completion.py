"""`callboard completion SHELL`."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class


@click.command("completion")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print the completion script of SHELL.

    bash: eval "$(callboard completion bash)" in ~/.bashrc; zsh: the same in ~/.zshrc; fish: callboard completion fish >
    ~/.config/fish/completions/callboard.fish
    """
    kind = get_completion_class(shell)
    if kind is None:
        raise click.UsageError(f"no completion for {shell}")
    root = ctx.find_root()
    click.echo(kind(root.command, {}, "callboard", "_CALLBOARD_COMPLETE").source())
