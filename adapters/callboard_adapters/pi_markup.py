"""Takes tool-call markup out of a model's text.

Some models served through pi echo their own control language as text: `<|tool_call>call:bash{command:<|"|>ls<|"|>}
<tool_call|>`, `response:bash{…}`, `<|channel>thought`. It is noise for a reader and must not become an answer.
"""

from __future__ import annotations

import re

_QUOTE = '<|"|>'
_MARK = re.compile(
    r"(?P<open><\|[A-Za-z_]{1,32}>(?:(?!(?:call|response):)[A-Za-z_]{1,32})?)"
    r"|(?P<close><[A-Za-z_]{1,32}\|>)"
    r"|(?P<block>(?<![\w.])(?:call|response):[A-Za-z_][\w.-]{0,63}\{)"
)
_HELD = 64  # characters from a possible beginning that wait for what follows
_LONGEST_BLOCK = 1 << 18  # an unbalanced block longer than this is text after all
_BEGINNINGS = ("call:", "response:")
_NAME = re.compile(r"[\w.-]{0,64}")
_TOKEN_BEGINNING = re.compile(r"<(?:\|[A-Za-z_]{0,32}(?:>[A-Za-z_]{0,32})?|[A-Za-z_]{0,32}\|?)?")


class MarkupFilter:
    """One text stream: `feed` the deltas, `flush` at its end."""

    __slots__ = ("_before", "_held")

    def __init__(self) -> None:
        self._held = ""
        self._before = ""  # the last character given out: a word's middle begins no block

    def feed(self, text: str) -> str:
        """What of the text so far can be shown; the rest waits."""
        if not self._held and "<" not in text and not _may_be_cut(text, self._before):
            self._before = text[-1:] or self._before
            return text
        self._held += text
        return self._take(last=False)

    def flush(self) -> str:
        """What still waits, at the end of the text."""
        return self._take(last=True)

    def _take(self, *, last: bool) -> str:
        shown: list[str] = []
        while True:
            found = self._find()
            if found is None:
                keep = 0 if last else _waiting(self._held, self._before)
                self._give(shown, len(self._held) - keep)
                return "".join(shown)
            end = self._end_of(found, last)
            if end is None:
                self._give(shown, found.start())
                return "".join(shown)
            if end < 0:  # a block that never closed: text
                self._give(shown, found.end())
                continue
            self._give(shown, found.start())
            self._held = self._held[end - found.start() :]
            self._before = ""

    def _find(self) -> re.Match[str] | None:
        found = _MARK.search(self._held)
        if found is not None and found["block"] and found.start() == 0 and _inside_word(self._before):
            return _MARK.search(self._held, 1)
        return found

    def _end_of(self, found: re.Match[str], last: bool) -> int | None:
        """Where the mark ends; None when that is not known yet, -1 when it is none."""
        if found["block"]:
            end = _balanced(self._held, found.end() - 1)
            if end is not None:
                return end
            return -1 if last or len(self._held) - found.start() > _LONGEST_BLOCK else None
        if found["open"] and found.end() == len(self._held) and not last:
            return None
        return found.end()

    def _give(self, shown: list[str], count: int) -> None:
        if count > 0:
            piece, self._held = self._held[:count], self._held[count:]
            shown.append(piece)
            self._before = piece[-1]


def without_markup(text: str) -> str:
    """The whole of a text, filtered."""
    marks = MarkupFilter()
    return marks.feed(text) + marks.flush()


def _balanced(text: str, at: int) -> int | None:
    """The end of the braces opening at `at`; what stands between quote marks does not count."""
    depth, quoted = 0, False
    for piece in re.finditer(r'<\|"\|>|[{}]', text[at:]):
        if piece[0] == _QUOTE:
            quoted = not quoted
        elif not quoted:
            depth += 1 if piece[0] == "{" else -1
            if depth == 0:
                return at + piece.end()
    return None


def _waiting(held: str, before: str) -> int:
    """How many characters at the end may be the beginning of a mark."""
    tail = held[-_HELD - 8 :]
    at = tail.rfind("<")
    if at >= 0 and _TOKEN_BEGINNING.fullmatch(tail, at):
        return len(tail) - at
    for start in range(len(tail)):
        previous = tail[start - 1] if start else held[-len(tail) - 1 : -len(tail)] or before
        if not _inside_word(previous) and _begins_block(tail[start:]):
            return len(tail) - start
    return 0


def _begins_block(tail: str) -> bool:
    for word in _BEGINNINGS:
        if word.startswith(tail) or (tail.startswith(word) and _NAME.fullmatch(tail, len(word))):
            return bool(tail)
    return False


def _may_be_cut(text: str, before: str) -> bool:
    """Whether anything in the text needs a closer look."""
    return "call:" in text or "response:" in text or bool(_waiting(text, before))


def _inside_word(before: str) -> bool:
    return bool(before) and (before.isalnum() or before in "_.")
