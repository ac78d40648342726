"""Finds OpenClaw's one JSON document among its log lines, and reads it.

The document is printed at the very end, indented over some four hundred lines, with plugins' log lines before and after
it; builds before 2026.5.5 printed it on stderr. Older still are single events, one a line. What is no part of any of
these is never an answer.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pydantic_core import from_json

from callboard_adapters import failures
from callboard_adapters.base import ProcessExit
from callboard_adapters.dialects.json_values import count, flatten
from callboard_adapters.dialects.ndjson import without_halves
from callboard_adapters.messages import FailureDetail, Message, MessageType, TokenUsage
from callboard_wire.failures import FailureReason

_LONGEST = 64 << 20  # bytes of a document; one that is longer is given up
_PLAIN_KEPT = 1 << 20  # bytes of other lines kept
_LOG_LINE = re.compile(r"\s*(\[[^\]]*\]|\d{4}-\d\d-\d\dT|\d\d:\d\d:\d\d)")
_JSON_LINE = re.compile(r"\s*[{}\[\]\"]")
_AUTH = re.compile(
    r"auth/billing failure|authentication source|no api key|temporarily disabled|requires credentials", re.IGNORECASE
)
_BILLING = re.compile(r"billing error", re.IGNORECASE)
_NO_GATEWAY = re.compile(r"gateway not reachable", re.IGNORECASE)
_SLOW = re.compile(r"request timed out|fetch failed|terminated", re.IGNORECASE)
_EMPTY = re.compile(r"incomplete terminal response|incomplete turn|generate a response", re.IGNORECASE)
_REJECTED = re.compile(r"provider rejected the request", re.IGNORECASE)
_NO_AGENT = re.compile(r"unknown agent id", re.IGNORECASE)  # what `ExecOptions.model` names here
_KINDS = {
    "context_overflow": FailureReason.CONTEXT_OVERFLOW,
    "incomplete_turn": FailureReason.EMPTY_OUTPUT,
}
USER_LINE = b'"role":"user"'
_TICKS = 10**10  # per US dollar
_INPUT = ("input", "inputTokens", "input_tokens")
_OUTPUT = ("output", "outputTokens", "output_tokens")
_READ = ("cacheRead", "cachedInputTokens", "cached_input_tokens", "cache_read", "cache_read_input_tokens")
_WRITTEN = ("cacheWrite", "cacheCreationInputTokens", "cache_creation_input_tokens", "cache_write")


class Finder:
    """Takes the lines of one pipe; `feed` gives each JSON object that a line completes.

    A document begins with a lone brace and is indented: what stands at the margin inside it was written by another.
    """

    def __init__(self) -> None:
        self._open: list[bytes] = []
        self._size = 0
        self._plain: list[str] = []
        self._plain_size = 0
        self.noise = 0

    def feed(self, piece: bytes) -> dict[str, Any] | None:
        """An object that ended with this line, else None. Lines indented under it may come along (`LineFramer`)."""
        if self._open and piece.startswith(b" "):  # nearly everything: the inside of a document
            self._append(piece)
            return None
        line, under, inside = piece.partition(b"\n")
        value = self._at_margin(line)
        if under and self._open:
            self._append(inside)
        elif under:
            self._keep_all(inside)
        return value

    def _at_margin(self, line: bytes) -> dict[str, Any] | None:
        margin = line.rstrip(b"\r")
        if line.startswith(b"{") and (not self._open or margin == b"{" or self._open[0].rstrip(b"\r") != b"{"):
            whole = _object(line)
            self._give_up()  # what was open is no JSON
            if whole is not None:
                return whole
        elif not self._open:
            self._keep(line)
            return None
        self._append(line)
        if self._open and (margin == b"}" or (line.startswith(b"}") and self._open[0].rstrip(b"\r") != b"{")):
            return self._closed()
        return None

    def _append(self, piece: bytes) -> None:
        self._open.append(piece)
        self._size += len(piece) + 1
        if self._size > _LONGEST:
            self._give_up()

    def _closed(self) -> dict[str, Any] | None:
        value = _object(b"\n".join(self._open))
        if value is None:
            # Pieces are a line at the margin, or lines indented under one.
            own = [x for x in self._open if x[:1] in b" \t" or x.rstrip(b"\r") in (b"{", b"}")]
            value = _object(b"\n".join(own))
            if value is not None:
                self.noise += sum(1 for x in self._open if x.strip()) - len(own)
        if value is not None:
            self._open, self._size = [], 0
        return value

    def leftover(self) -> dict[str, Any] | None:
        """The object in lines that never closed a document by themselves: brackets may stand in odd places."""
        text = b"\n".join(self._open).decode("utf-8", "replace")
        self._give_up()
        try:
            value, _ = json.JSONDecoder().raw_decode(text)
        except (ValueError, RecursionError):
            return None
        return without_halves(value) if isinstance(value, dict) else None

    def plain(self) -> str:
        """What was printed besides logs, when none of it looks like JSON; else "": a broken document is no answer."""
        lines = [line for line in self._plain if not _LOG_LINE.match(line)]
        if any(_JSON_LINE.match(line) for line in lines):
            return ""
        return "\n".join(lines).strip()

    def _keep(self, line: bytes) -> None:
        if line.strip():
            self.noise += 1
        if self._plain_size < _PLAIN_KEPT:
            self._plain.append(line[:_PLAIN_KEPT].decode("utf-8", "replace"))
            self._plain_size += len(line) + 1

    def _keep_all(self, piece: bytes) -> None:
        for line in piece.split(b"\n"):
            self._keep(line)

    def _give_up(self) -> None:
        for piece in self._open:
            self._keep_all(piece)
        self._open, self._size = [], 0


@dataclass(frozen=True, slots=True)
class Document:
    """The result document in the words of this library."""

    texts: tuple[str, ...] = ()
    error: str = ""  # "" when it holds an answer
    kind: str = ""  # the CLI's own word for the error
    session_id: str = ""
    model: str = ""
    usage: TokenUsage | None = None
    aborted: bool = False
    final: str = ""  # the last thing said, where the CLI names it
    began_empty: bool | None = None  # the conversation had no message before this turn; None where that is not told
    session_files: tuple[str, ...] = ()  # where the conversation is, one JSON line a message

    def messages(self) -> list[Message]:
        """What the user sees of it."""
        end = self._end
        said = [Message(MessageType.TEXT, text) for text in self.texts[:end]]
        said += [Message(MessageType.LOG, text, level="warn") for text in self.texts[end:]]
        return [*said, Message(MessageType.ERROR, self.error)] if self.error else said

    @property
    def _end(self) -> int:
        """How many payloads are the agent's own. 2026.9.6 adds one of its own to an answer that was cut off."""
        said = [text.strip() for text in self.texts]
        return len(said) - said[::-1].index(self.final) if self.final in said else len(said)

    @property
    def answer(self) -> str:
        """The payloads as one text; blocks that bring no space of their own are paragraphs.

        Up to 2026.5.7 what was said before each tool call is a payload too, and no part of the answer.
        """
        whole = ""
        for text in self.texts[: self._end]:
            glued = not whole or whole[-1:].isspace() or text[:1].isspace()
            whole += text if glued else f"\n\n{text}"
        return self.final if self.final and whole.rstrip().endswith(self.final) else whole


def is_document(value: Mapping[str, Any]) -> bool:
    """Whether an object is the result and not an event or something a plugin printed."""
    if isinstance(value.get("runId"), str) and isinstance(value.get("status"), str) and "type" not in value:
        return True  # a gateway's answer; an event has a type
    if isinstance(value.get("payloads"), list) or value.get("ok") is False:
        return True
    meta = value.get("meta")
    return isinstance(meta, dict) and bool(meta.get("durationMs"))


def read(value: Mapping[str, Any]) -> Document:
    """Read a document. Any shape is accepted; what is missing stays empty."""
    if value.get("ok") is False:
        refusal = _mapping(value.get("error"))
        text = flatten(refusal.get("message") or value.get("error") or "the run failed")
        return Document(error=text, kind=str(refusal.get("type") or ""))
    if "runId" in value and "payloads" not in value:
        return _of_a_gateway(value)
    meta = _mapping(value.get("meta"))
    agent = _mapping(meta.get("agentMeta"))
    payloads = value.get("payloads")
    blocks = [p for p in payloads if isinstance(p, dict)] if isinstance(payloads, list) else []
    said = [str(p["text"]) for p in blocks if isinstance(p.get("text"), str) and p["text"] and not p.get("isError")]
    refused = [str(p.get("text") or "") for p in blocks if p.get("isError")]
    problem = _mapping(meta.get("error"))
    error = flatten(problem.get("message") or problem.get("kind") or "") or ("" if said else "\n".join(refused).strip())
    if refused and not said and not error:
        error = "the run failed without a text"
    if error:  # told in other words as well, in a payload that is not marked
        said = [text for text in said if error.strip().rstrip(".") not in text]
    return Document(
        texts=tuple(said),
        error=error,
        kind=str(problem.get("kind") or ""),
        session_id=str(agent.get("sessionId") or ""),
        model=str(agent.get("model") or ""),
        usage=_usage(agent),
        aborted=meta.get("aborted") is True,
        final=flatten(meta.get("finalAssistantVisibleText")).strip(),
        began_empty=_began_empty(_mapping(agent.get("contextBudgetStatus"))),
        session_files=tuple(f for f in (agent.get("sessionFile"),) if isinstance(f, str) and f.endswith(".jsonl")),
    )


def began_with_this_turn(session_file: bytes) -> bool:
    """Whether the messages in a conversation's file are of one turn; it has a line for each thing the user said."""
    return session_file.count(USER_LINE) == 1


def _began_empty(budget: Mapping[str, Any]) -> bool | None:
    counts = (budget.get("messageCount"), budget.get("unwindowedMessageCount"))
    return None if counts == (None, None) else counts == (0, 0)


def _of_a_gateway(value: Mapping[str, Any]) -> Document:
    """`{"runId", "status": "ok" | "error" | …, "summary", "result"}`: what a run in one's own process prints is in
    `result`, which may be missing."""
    document = read(_mapping(value.get("result")))
    status = str(value.get("status") or "")
    if status == "ok" or document.error or document.aborted:
        return document
    refusal = value.get("error")
    said = _mapping(refusal).get("message") or refusal or value.get("summary")
    return replace(document, error=flatten(said or f"the gateway ended the run as {status}"))


def tokens(used: Mapping[str, Any], cost: Any = None) -> TokenUsage:
    """Buckets under whatever name; the first that is not zero counts. They do not overlap."""
    priced = isinstance(cost, int | float) and 0 < cost < 1e6

    def first(names: Sequence[str]) -> int:
        return next((n for name in names if (n := count(used.get(name)))), 0)

    ticks = round(float(cost) * _TICKS) if priced else None
    return TokenUsage(first(_INPUT), first(_OUTPUT), first(_READ), first(_WRITTEN), ticks)


def classify(document: Document, exit: ProcessExit) -> FailureDetail:
    """Why the run in `document` failed: OpenClaw has a sentence and for some errors a word of its own."""
    found = failures.classify(document.error, exit)
    if _NO_GATEWAY.search(document.error):  # its address and the path of its file are full of numbers: 503, say
        return replace(found, reason=FailureReason.NETWORK, http_status=None)
    if document.kind in _KINDS and found.reason is FailureReason.UNKNOWN:
        return replace(found, reason=_KINDS[document.kind], provider_code=document.kind)
    for pattern, reason in (
        (_AUTH, FailureReason.AUTH),
        (_BILLING, FailureReason.QUOTA),
        (_SLOW, FailureReason.NETWORK),
        (_EMPTY, FailureReason.EMPTY_OUTPUT),
        (_REJECTED, FailureReason.API_INVALID_REQUEST),
        (_NO_AGENT, FailureReason.MODEL),
    ):
        if found.reason is FailureReason.UNKNOWN and pattern.search(document.error):
            return replace(found, reason=reason)
    return found


def missing(exit: ProcessExit) -> FailureDetail:
    """Why a process printed no document, from how it ended and what it wrote on stderr."""
    said = exit.stderr_tail
    what = "openclaw returned no parseable output" if exit.clean else f"openclaw ended with {exit} and no result"
    error = what + (f"; openclaw stderr: {said}" if said else "")
    if exit.clean:
        return FailureDetail(FailureReason.EMPTY_OUTPUT, error)
    found = classify(Document(error=said), exit)
    vague = found.reason is FailureReason.UNKNOWN or exit.signal is not None
    return FailureDetail(FailureReason.PROCESS if vague else found.reason, error)


def _usage(agent: Mapping[str, Any]) -> TokenUsage | None:
    used = agent.get("usage")  # of the run; `lastCallUsage` is of its last call
    if not isinstance(used, dict):
        return None
    cost = agent.get("costUsd")
    return tokens(used, cost if cost is not None else _mapping(used.get("cost")).get("total"))


def _object(data: bytes) -> dict[str, Any] | None:
    try:
        value = from_json(data)
    except ValueError:
        try:
            value = without_halves(json.loads(data))  # NaN, lone surrogates
        except (ValueError, RecursionError):
            return None
    return value if isinstance(value, dict) else None


def _mapping(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
