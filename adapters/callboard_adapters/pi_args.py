"""Which of a user's extra arguments pi may see: its options, and nothing that it would read as part of the prompt."""

from __future__ import annotations

from collections.abc import Sequence

VALUES = frozenset(
    {
        "--provider",
        "--model",
        "--api-key",
        "--system-prompt",
        "--append-system-prompt",
        "--name",
        "-n",
        "--session-id",
        "--session-dir",
        "--models",
        "--tools",
        "-t",
        "--exclude-tools",
        "-xt",
        "--extension",
        "-e",
        "--skill",
        "--prompt-template",
        "--theme",
    }
)
_ALONE = frozenset(
    {
        "--no-tools",
        "--no-builtin-tools",
        "--no-extensions",
        "--no-skills",
        "--no-prompt-templates",
        "--no-themes",
        "--no-context-files",
        "--verbose",
        "--approve",
        "--no-approve",
        "--offline",
    }
)


def options_only(tokens: Sequence[str]) -> tuple[list[str], int]:
    """(the options with their values, how many other words were dropped).

    A bare word or `@file` would be joined to the prompt. An unknown long option (extensions add their own) keeps one
    word after it, an unknown short one none.
    """
    kept: list[str] = []
    dropped = 0
    takes = False  # the word before may have this one as its value
    for word in tokens:
        if takes and (kept[-1] in VALUES or not word.startswith(("-", "@"))):
            kept.append(word)
            takes = False
        elif word.startswith("-") and len(word) > 1 and word != "--":
            kept.append(word)
            takes = word in VALUES or (word.startswith("--") and word not in _ALONE and "=" not in word)
        else:
            dropped += 1
            takes = False
    return kept, dropped
