"""`callboard model-profile list|set|delete`: what the words for "which model" mean here."""

from __future__ import annotations

from typing import Any

import click

from callboard_daemon.cli.context import Cli, output_option, pass_cli
from callboard_daemon.cli.output import note, print_json, print_table, working
from callboard_daemon.cli.typed import body_from
from callboard_wire.agents import ModelChoice, ModelProfileView, PutModelProfile


@click.group("model-profile")
def model_profile() -> None:
    """Say which model a word such as `fast` means, provider by provider."""


@model_profile.command("list")
@output_option
@pass_cli
def list_profiles(cli: Cli) -> None:
    """List the workspace's model profiles."""
    with cli.connect() as api, working(cli, "asking the server"):
        profiles = list(api.model_profiles())
    if cli.json:
        print_json(profiles)
        return
    rows = [row for profile in profiles for row in _rows(profile)]
    print_table(["profile", "provider", "model", "thinking", "max tokens", "max turns", "said by"], rows, empty="")


@model_profile.command("set")
@click.argument("key")
@click.argument("provider")
@click.option("--model", metavar="NAME", help="The model; without it the CLI's own choice.")
@click.option("--thinking-level", metavar="LEVEL", help="How hard it thinks, in the provider's own words.")
@click.option("--max-tokens", type=click.IntRange(1), metavar="N", help="Tokens of one answer, where the CLI knows it.")
@click.option("--max-turns", type=click.IntRange(1), metavar="N", help="End a run after so many turns.")
@output_option
@pass_cli
def set_profile(cli: Cli, /, key: str, provider: str, **given: Any) -> None:
    """Say what KEY means to PROVIDER. What it means to others stays."""
    choice = body_from(ModelChoice, **given)
    with cli.connect() as api, working(cli, "asking the server"):
        known = next((p for p in api.model_profiles() if p.key == key), None)
        own = {name: known.providers[name] for name in known.own_providers} if known is not None else {}
        body = body_from(PutModelProfile, providers={**own, provider.lower(): choice})
        _show(cli, api.put_model_profile(key, body))


@model_profile.command("delete")
@click.argument("key")
@output_option
@pass_cli
def delete_profile(cli: Cli, key: str) -> None:
    """Forget what this workspace says of KEY. `default`, `fast` and `smart` mean again what they always do."""
    with cli.connect() as api, working(cli, "asking the server"):
        left = api.delete_model_profile(key)
    if left.built_in or cli.json:
        _show(cli, left)
    else:
        note(f"{key} is gone.")


def _show(cli: Cli, profile: ModelProfileView) -> None:
    if cli.json:
        print_json(profile)
        return
    print_table(
        ["profile", "provider", "model", "thinking", "max tokens", "max turns", "said by"], _rows(profile), empty=""
    )


def _rows(profile: ModelProfileView) -> list[list[str]]:
    rows = [
        [
            profile.key,
            provider,
            choice.model or "",
            choice.thinking_level or "",
            str(choice.max_tokens or ""),
            str(choice.max_turns or ""),
            "this workspace" if provider in profile.own_providers else "built in",
        ]
        for provider, choice in profile.providers.items()
    ]
    return rows or [[profile.key, "", "", "", "", "", "built in" if profile.built_in else ""]]
