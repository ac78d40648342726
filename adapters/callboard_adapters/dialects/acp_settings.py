"""Brings an opened ACP session into the state a run asked for: its model, a mode that works, its thinking level.

What the session offers decides how: a configuration option where there is one, else the older `session/set_model`.
A model that cannot be set ends the run (it would do the work of another one); a thinking level never does.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from callboard_adapters.dialects import acp_errors
from callboard_adapters.dialects.acp_offer import SessionOffer
from callboard_adapters.dialects.json_rpc import METHOD_NOT_FOUND, Answer, JsonRpc
from callboard_adapters.messages import FailureDetail
from callboard_wire.failures import FailureReason

SET_MODEL, SET_MODE, SET_OPTION = "session/set_model", "session/set_mode", "session/set_config_option"


class Settings:
    """One request at a time: `next` gives it, `answered` takes its answer."""

    def __init__(self, rpc: JsonRpc, session: SessionOffer, model: str, effort: str) -> None:
        self._rpc = rpc
        self._session = session
        self._model = model
        self._effort = effort
        self._id = ""
        self._setting = "model"  # or mode, effort: what the outstanding request sets
        self._steps: list[Callable[[], bytes | None]] = [self._set_model, self._set_mode, self._set_effort]

    def next(self, session_id: str) -> bytes | None:
        """The next request, None when the session is as it should be."""
        self._id = session_id
        while self._steps:
            line = self._steps.pop(0)()
            if line is not None:
                return line
        return None

    def answered(self, answer: Answer) -> tuple[FailureDetail | None, list[str]]:
        """(the failure that ends the run, warnings)."""
        if self._setting == "model":
            return self._model_answered(answer), []
        if answer.error is not None:
            return None, [f"{self._setting} not set: {answer.error.sentence(answer.method)}"]
        self._session.update(answer.fields)
        return None, []

    def effort_notices(self) -> list[str]:
        """What became of the wish for a thinking level, where it was not granted."""
        choice = self._session.effort_choice
        if not self._effort or (choice is not None and choice.current in (self._effort, self._wanted_effort())):
            return []
        offered = f"the session offers {', '.join(choice.values)}" if choice else "the session offers none"
        return [f"thinking level {self._effort!r} has no effect: {offered}"]

    # the steps -------------------------------------------------------------------

    def _set_model(self) -> bytes | None:
        choice = self._session.model_choice
        value = (choice.value_of(self._model) or self._model) if choice else self._model
        # Choosing the model that is set already was seen to send `provider:model` names to the wrong provider.
        if not self._model or value == (choice.current if choice else self._session.model):
            return None
        self._setting = "model"
        if choice is not None:
            return self._request(SET_OPTION, configId=choice.id, value=value)
        return self._request(SET_MODEL, modelId=self._model)

    def _set_mode(self) -> bytes | None:
        mode = self._session.working_mode()
        self._setting = f"mode {mode}"
        return None if mode is None else self._request(SET_MODE, modeId=mode)

    def _set_effort(self) -> bytes | None:
        choice, value = self._session.effort_choice, self._wanted_effort()
        if choice is None or value is None or choice.current == value:
            return None
        self._setting = f"thinking level {self._effort}"
        return self._request(SET_OPTION, configId=choice.id, value=value)

    def _wanted_effort(self) -> str | None:
        choice = self._session.effort_choice
        return choice.value_of(self._effort) if choice is not None and self._effort else None

    def _model_answered(self, answer: Answer) -> FailureDetail | None:
        error = answer.error
        if error is None:
            self._session.model = self._model
            self._session.update(answer.fields)
            return None
        if error.code == METHOD_NOT_FOUND and answer.method == SET_OPTION:
            # An agent between two versions lists the option and still wants the older request.
            self._steps.insert(0, lambda: self._request(SET_MODEL, modelId=self._model))
            return None
        found = acp_errors.failure(error, answer.method)
        vague = found.reason in (FailureReason.UNKNOWN, FailureReason.SERVER_ERROR) and found.http_status is None
        text = f"could not switch to model {self._model!r}: {found.detail}"
        return FailureDetail(
            FailureReason.MODEL if vague else found.reason, text, found.http_status, found.provider_code
        )

    def _request(self, method: str, **params: Any) -> bytes:
        return self._rpc.request(method, {"sessionId": self._id, **params})[1]
