"""Arguments that people add to a CLI's command line, less those the protocol depends on.

Somebody who adds `--output-format text` to an agent would leave it mute for ever, so each adapter declares the flags
it owns (`Capabilities.blocked_args`) and they are dropped here, in every spelling the CLI's own parser accepts, with a
notice that the user sees. Values are never repeated in a notice: they may be secrets.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from callboard_adapters.capabilities import ArgMode, Capabilities
from callboard_adapters.messages import Message, MessageType
from callboard_adapters.options import ExecOptions


@dataclass(slots=True)
class Filtered:
    """`kept` tokens in order and the `dropped` flags by name."""

    kept: list[str] = field(default_factory=list)
    dropped: list[str] = field(default_factory=list)


def user_args(
    capabilities: Capabilities, options: ExecOptions, also_blocked: Mapping[str, ArgMode] | None = None
) -> tuple[list[str], list[Message]]:
    """`extra_args` then `custom_args`, each filtered, and one warning per dropped flag.

    `also_blocked` are flags this one launch sets itself.
    """
    if also_blocked:
        capabilities = replace(capabilities, blocked_args={**capabilities.blocked_args, **also_blocked})
    kept: list[str] = []
    notices: list[Message] = []
    for source, tokens in (("the machine's", options.extra_args), ("the agent's", options.custom_args)):
        result = filter_args(tokens, capabilities)
        kept += result.kept
        for flag in result.dropped:
            notices.append(
                Message(
                    MessageType.LOG,
                    f"dropped {flag} from {source} arguments: {capabilities.name}'s adapter sets it itself",
                    level="warn",
                )
            )
    return kept, notices


def filter_args(tokens: Iterable[str], capabilities: Capabilities) -> Filtered:
    """Drop every spelling of a blocked flag together with its value. Tokens lose one layer of quotes, as in a shell."""
    result = Filtered()
    rest = [unquote(t) for t in tokens]
    i = 0
    while i < len(rest):
        i += _one(rest, i, capabilities, result)
    return result


def filter_prefix(tokens: Sequence[str], capabilities: Capabilities) -> Filtered:
    """As `filter_args` for a launch prefix, whose positional words name a wrapper's command and always stay."""
    result = Filtered()
    rest = [unquote(t) for t in tokens]
    i = 0
    while i < len(rest):
        if len(rest[i]) > 1 and rest[i].startswith("-") and rest[i] != "--":
            i += _one(rest, i, capabilities, result)
        else:
            result.kept.append(rest[i])
            i += 1
    return result


def unquote(token: str) -> str:
    """`--f='v'` → `--f=v` and `"v"` → `v`; `k="v"` stays, it is somebody's configuration syntax (codex `-c`)."""
    head, eq, value = token.partition("=")
    if token.startswith("-") and eq and head and _quoted(value):
        return f"{head}={value[1:-1]}"
    return token[1:-1] if _quoted(token) else token


def _quoted(text: str) -> bool:
    return len(text) >= 2 and text[0] == text[-1] and text[0] in "'\""


def _one(tokens: list[str], i: int, capabilities: Capabilities, result: Filtered) -> int:
    """Judge the token at `i`; how many tokens were consumed."""
    token = tokens[i]
    head, eq, _ = token.partition("=")
    flag = head if eq and head else token
    following = tokens[i + 1] if i + 1 < len(tokens) else None
    name = _blocked_name(flag, capabilities)
    if name is not None:
        result.dropped.append(name)
        mode = capabilities.blocked_args[name]
        if (eq and head) or following is None or mode is ArgMode.STANDALONE:
            return 1
        if mode is ArgMode.VALUE or not following.startswith("-"):
            return 2
        return 1
    if flag in capabilities.value_args and not eq and following is not None:
        result.kept += [token, following]  # its value may look like a flag and is none
        return 2
    if capabilities.arg_style.attached_short and len(token) > 2 and token[0] == "-" and token[1] != "-":
        return _cluster(tokens, i, capabilities, result)
    result.kept.append(token)
    return 1


def _blocked_name(flag: str, capabilities: Capabilities) -> str | None:
    """The blocked flag that `flag` means, or None."""
    blocked = capabilities.blocked_args
    if flag in blocked:
        return flag
    if capabilities.arg_style.abbreviations and len(flag) > 2 and flag.startswith("--"):
        if flag in capabilities.value_args:
            return None
        # An ambiguous abbreviation is dropped too: the CLI would refuse to start on it.
        return next((b for b in blocked if b.startswith(flag)), None)
    return None


def _cluster(tokens: list[str], i: int, capabilities: Capabilities, result: Filtered) -> int:
    """`-xpVALUE`: short flags in one token. Stops at the first letter of unknown meaning: it may take the rest."""
    token, kept = tokens[i], ""
    for at, letter in enumerate(token[1:], start=1):
        name = f"-{letter}"
        mode = capabilities.blocked_args.get(name)
        if mode is None:
            kept += token[at:]
            break
        result.dropped.append(name)
        if mode is not ArgMode.STANDALONE:
            consumed_next = at == len(token) - 1 and mode is ArgMode.VALUE
            if kept:
                result.kept.append(f"-{kept}")
            return 2 if consumed_next and i + 1 < len(tokens) else 1
    if kept:
        result.kept.append(f"-{kept}")
    return 1
