"""What an ACP agent's error answers mean: the session is gone, it is busy, or why the run failed.

`Internal error` (-32603) is what most agents answer to everything, so the evidence is in `data`: a string, an object
with an HTTP status, an object with a code of the vendor's.
"""

from __future__ import annotations

import json
import re
from typing import Any

from callboard_adapters import failures
from callboard_adapters.dialects.acp_offer import first_text, mapping
from callboard_adapters.dialects.json_rpc import INTERNAL_ERROR, RpcError
from callboard_adapters.messages import FailureDetail
from callboard_wire.failures import FailureReason

AUTH_REQUIRED = -32000
RESOURCE_NOT_FOUND = -32002
_HISTORY_PICTURE = ("image.source.base64.data", "image dimensions exceed max allowed size")
_GONE = (
    "session not found",
    "no session found",
    "unknown session",
    "unknown sessionid",
    "no such session",
    "session does not exist",
    "session doesn't exist",
    "session no longer exists",
    "session id not found",
    "sessionid not found",
    "could not find session",
    "conversation not found",
)
_BUSY = (
    "active elsewhere",
    "already active",
    "already in use",
    "in use by",
    "already open",
    "locked by",
    "is locked",
    "owned by",
    "held by",
    "another process",
    "another instance",
    "is busy",
    "session busy",
)
_STATUS_KEYS = ("http_status", "httpStatus", "statusCode", "status_code", "status")
_CODE_KEYS = ("code", "error_type", "errorType", "error_code", "type")
_NOISE = re.compile(r"[\"'`:()\[\]{},_\-\s]+")


def gone(error: RpcError, session_id: str, *, opening: bool) -> bool:
    """Positive evidence that `session_id` does not exist: the words of the six agents and of their libraries.

    `opening`: the error answers `session/load` or `session/resume`, where a missing file can only be the session's.
    """
    if error.code == AUTH_REQUIRED or busy(error):
        return False
    said = _words(error, session_id)
    if any(_plain(phrase) in said for phrase in _GONE):
        return True
    if not opening:
        return False
    if mapping(error.data).get("code") == "FS_NOT_FOUND":
        return True
    return error.code == RESOURCE_NOT_FOUND and ("session" in said or session_id in _all_text(error))


def busy(error: RpcError) -> bool:
    """The session is there, and somebody (perhaps a process that died with its lock) holds it."""
    said = _all_text(error).lower()
    return any(phrase in said for phrase in _BUSY)


def picture_in_history(error: RpcError) -> bool:
    """A picture in the conversation is larger than the provider takes: every further turn fails in the same way."""
    said = _all_text(error).lower()
    return all(phrase in said for phrase in _HISTORY_PICTURE)


def failure(error: RpcError, method: str) -> FailureDetail:
    """The classified failure for an error answer; `detail` is the sentence people get."""
    sentence = error.sentence(method)
    data = mapping(error.data)
    nested = mapping(data.get("error"))
    status = next((s for s in (_status(d) for d in (data, nested)) if s is not None), None)
    code = first_text(d.get(k) for d in (data, nested) for k in _CODE_KEYS)
    if picture_in_history(error):
        return FailureDetail(FailureReason.API_INVALID_REQUEST, sentence, status, code or None)
    if error.code == AUTH_REQUIRED and status is None:
        worded = failures.from_wording(sentence)
        kept = worded if worded is FailureReason.NETWORK else FailureReason.AUTH
        return FailureDetail(kept, sentence, None, code or None)
    detail = failures.classify(evidence(error), http_status=status, provider_code=code or None)
    if detail.reason is FailureReason.UNKNOWN:
        detail = failures.classify(sentence, http_status=status, provider_code=code or None)
    return FailureDetail(detail.reason, sentence, status, code or None, detail.retry_after_s)


def evidence(error: RpcError) -> str:
    """The part of the error that says something: `data` where the message is only "Internal error"."""
    if error.data is None:
        return error.message
    said = error.data if isinstance(error.data, str) else json.dumps(error.data, ensure_ascii=False)
    empty = error.code == INTERNAL_ERROR and error.message.strip().lower().rstrip(".") == "internal error"
    return said if empty else f"{error.message} {said}"


def _status(data: dict[str, Any]) -> int | None:
    values = (data.get(key) for key in _STATUS_KEYS)
    return next((v for v in values if type(v) is int and 100 <= v <= 599), None)


def _all_text(error: RpcError) -> str:
    data = error.data
    said = data if isinstance(data, str) else "" if data is None else json.dumps(data, ensure_ascii=False)
    return f"{error.message} {said}"


def _words(error: RpcError, session_id: str) -> str:
    """Message and data as plain words, without the id, so that `session "x" not found` reads `session not found`."""
    said = _all_text(error).lower()
    if session_id:
        said = said.replace(session_id.lower(), " ")
    return _plain(said)


def _plain(said: str) -> str:
    return _NOISE.sub(" ", said)
