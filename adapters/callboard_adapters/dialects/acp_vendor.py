"""What one vendor's ACP agent does differently: the hooks of `AcpClient`, and the state they may look at."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from callboard_adapters.base import Output
from callboard_adapters.dialects.acp_names import common_name
from callboard_adapters.dialects.acp_offer import Offer, SessionOffer, mapping, text
from callboard_adapters.dialects.acp_settings import Settings
from callboard_adapters.dialects.acp_tools import Announces, Call, Tools
from callboard_adapters.dialects.acp_updates import Updates
from callboard_adapters.dialects.json_rpc import JsonRpc, RpcError
from callboard_adapters.messages import FailureDetail

LOAD, RESUME = "session/load", "session/resume"
_SEPARATOR = "\n\n---\n\n"
_LOST = (
    "Note: the conversation this continues could not be opened again, so this is a new one that does not know it. "
    "Read what you need (the issue, its comments, the state of the working directory) before you act."
)


@dataclass(frozen=True, slots=True)
class Ask:
    """What a run asks of the agent. `fresh` says why `resume` is not tried again; `expected` that there should have
    been a conversation to resume; `system` goes before the prompt."""

    prompt: str
    cwd: str
    system: str = ""
    expected: bool = False
    model: str = ""
    effort: str = ""
    resume: str = ""
    fresh: str = ""
    servers: tuple[dict[str, Any], ...] = ()


class AcpVendor:
    """The conversation so far, and the defaults of every hook."""

    opens_with: ClassVar[tuple[str, ...]] = (RESUME, LOAD)  # in order of preference
    announces: ClassVar[Announces] = Announces.INPUT_LATER
    grace: ClassVar[float] = 3.0  # seconds to exit in after the turn

    def __init__(self, ask: Ask) -> None:
        self.ask = ask
        self.rpc = JsonRpc()
        self.offer = Offer()
        self.session = SessionOffer()
        self.session_id = ""
        self.resumed = False
        self.fresh = ask.fresh  # why the conversation was not continued, "" when it was or there was none
        self.prompted = False
        self.answered = False  # the prompt was, with a result
        self.cancelled = False
        self.stop_reason = ""
        self.result: dict[str, Any] = {}  # the prompt's
        self.trouble = ""  # why the model is being asked again, "" once it has answered
        self.error: FailureDetail | None = None
        self.rejected = False  # the session to resume is gone, or no good any more
        self.keeps_session = False  # although rejected
        self.settings = Settings(self.rpc, self.session, ask.model, ask.effort)
        self.updates = Updates(Tools(self.announces, self.tool_name, self.on_tool_over), self.session, self.model)

    @property
    def over(self) -> bool:
        """Nothing more is expected: the prompt was answered or a step failed."""
        return self.answered or self.error is not None

    def model(self) -> str:
        """The name the usage is filed under."""
        return self.ask.model or self.session.current_model or "unknown"

    def prompt_text(self) -> str:
        """The prompt with what must be said before it."""
        lost = self.fresh or (self.ask.expected and not self.ask.resume)
        return _SEPARATOR.join(filter(None, (self.ask.system, _LOST if lost else "", self.ask.prompt)))

    # hooks -----------------------------------------------------------------------------

    def auth_method(self) -> str | FailureDetail | None:
        """The way to authenticate before the session, None where the agent needs none, or why there is no way."""
        return None

    def landed(self, fields: dict[str, Any]) -> str:
        """The id of the session that load or resume opened, "" when it is not a continuation of the one asked for."""
        return text(fields.get("sessionId")) or self.ask.resume

    def takes_remote_mcp(self) -> bool:
        """Whether http and sse servers are taken although `initialize` did not say so."""
        return False

    def prompt_params(self, blocks: list[dict[str, Any]]) -> dict[str, Any]:
        return {"prompt": blocks}

    def tool_name(self, title: str, kind: str, name: str) -> str:
        return common_name(title, kind, name)

    def on_tool_over(self, call: Call) -> None:
        """A call has ended (`call.status`)."""

    def on_extension(self, key: str, params: dict[str, Any]) -> Sequence[Output] | None:
        """A notification that is not ACP's; None for one that is unknown here too. Underscores are not in `key`."""
        return None

    def on_result(self, result: dict[str, Any]) -> None:
        """The prompt's answer, where the usage is."""
        meta = mapping(result.get("_meta"))
        self.updates.usage.add(result.get("usage"), meta.get("usage"), meta)

    def usage(self) -> dict[str, Any]:
        """This run's tokens per model, {} when nothing was stated."""
        return self.updates.by_model()

    def forgives(self, error: RpcError) -> bool:
        """Whether the turn counts as done although the prompt was answered with this error."""
        return False
