"""What the three dialects have in common: the pieces of a stream, and the shape of a dialect."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from tests.fakes.model_server.conversation import Conversation
from tests.fakes.model_server.scenarios import Answer, Failure


@dataclass(frozen=True)
class Piece:
    """Bytes of one event. Only text pieces are paced, and a cut connection is cut after the second of them."""

    data: bytes
    is_text: bool = False


@dataclass(frozen=True)
class Dialect:
    """One model API: how to read its requests and how to say an answer or a failure in it.

    `refusal` gives a failure's HTTP status and error document; `stream_failure` gives the events of a
    failure that the API reports inside a 200 stream, None where it uses the status; `error_event` is the event of a
    failure in the middle of an answer, the given number of events after its beginning.
    """

    read: Callable[[dict[str, Any]], Conversation]
    stream: Callable[[Answer, Conversation], Iterator[Piece]]
    whole: Callable[[Answer, Conversation], dict[str, Any]]
    refusal: Callable[[Failure], tuple[int, dict[str, Any]]]
    stream_failure: Callable[[Failure, Conversation], list[Piece] | None]
    error_event: Callable[[Failure, Conversation, int], Piece]


def never_in_stream(failure: Failure, conversation: Conversation) -> list[Piece] | None:
    """For an API that reports every failure by its HTTP status."""
    return None


def data_event(document: dict[str, Any]) -> bytes:
    """A server-sent event without a name."""
    return f"data: {json.dumps(document)}\n\n".encode()


def named_event(name: str, document: dict[str, Any]) -> bytes:
    """A server-sent event with a name."""
    return f"event: {name}\n".encode() + data_event(document)
