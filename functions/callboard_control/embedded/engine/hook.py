"""Putting an engine under botocore: requests of a client are answered by the engine and never reach a socket.

botocore emits `before-send.<service>.<operation>` with the finished HTTP request; a handler that returns a response
takes the place of the network. So retries, error classes, parsing and everything above stay botocore's own. Item
operations of an engine without faults take a shorter way (`shortcut`).
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import botocore
import botocore.session
from botocore.awsrequest import AWSPreparedRequest, AWSResponse
from botocore.config import Config
from botocore.exceptions import ConnectionClosedError

from callboard_control.embedded.engine import shortcut
from callboard_control.embedded.engine.engine import Engine
from callboard_control.embedded.engine.errors import EngineError, LostMessage

if TYPE_CHECKING:
    from pynamodb.connection import Connection
    from pynamodb.models import Model

# A host that cannot exist: should a hook ever be missing, the request fails instead of leaving the machine.
ENDPOINT = "http://engine.callboard.invalid"
REGION = "us-east-1"
_HANDLER = "callboard-embedded-engine"
_EVENTS = ("before-call.dynamodb", "before-send.dynamodb", "choose-signer.dynamodb")
_MAKING = threading.Lock()  # botocore makes one client at a time from a session


def attach(target: Any, engine: Engine) -> None:
    """Have `engine` answer every DynamoDB request of `target`: a boto3 or botocore client or session.

    A session passes the hook on to clients made from it later. Attaching again replaces the engine. Requests are not
    signed, and credentials are not needed for them; making a boto3 client may look for some, unlike `client`.
    """
    events = _events(target)
    for event in _EVENTS:
        events.unregister(event, unique_id=f"{_HANDLER}-{event}")
    for event, handler in (("before-send.dynamodb", _responder(engine)), ("choose-signer.dynamodb", _unsigned)):
        events.register_first(event, handler, unique_id=f"{_HANDLER}-{event}")
    if not engine.injects_faults:
        event = "before-call.dynamodb"
        # The last one: its answer ends the event, and others may want to see or change the request.
        events.register_last(event, shortcut.handler(engine), unique_id=f"{_HANDLER}-{event}")


def _events(target: Any) -> Any:
    meta = getattr(target, "meta", None)
    if meta is not None:
        return meta.events
    return getattr(target, "events", None) or target.get_component("event_emitter")


@lru_cache(maxsize=1)
def _session() -> Any:
    """One session for all clients: reading botocore's service model takes ten times as long as making a client."""
    session = botocore.session.Session()
    session.set_credentials("callboard", "embedded")
    return session


def client(engine: Engine, *, retries: int = 3, parameter_validation: bool = True) -> Any:
    """A new boto3-style DynamoDB client answered by `engine`; looks for no credentials, region or config anywhere.

    `retries` is how often botocore tries again after throttling and lost messages (standard mode). Without
    `parameter_validation` botocore passes on what it would refuse itself, and is a little faster.
    """
    config = Config(
        signature_version=botocore.UNSIGNED,
        parameter_validation=parameter_validation,
        retries={"mode": "standard", "total_max_attempts": retries + 1},
    )
    with _MAKING:
        made = _session().create_client("dynamodb", region_name=REGION, endpoint_url=ENDPOINT, config=config)
    attach(made, engine)
    return made


def attach_pynamodb(engine: Engine, *models: type[Model]) -> None:
    """Have `engine` answer every request of these PynamoDB models.

    Each model makes its own connection the first time it is used, so attach before that; a later change of
    Meta.table_name makes a new one and needs attaching again. Attaching again replaces the engine.
    """
    for model in models:
        # PynamoDB 6 has no public way from a model to its connection.
        attach_connection(engine, model._get_connection().connection)


def attach_connection(engine: Engine, connection: Connection, *, through_botocore: bool = False) -> None:
    """Have `engine` answer every request of a PynamoDB `Connection`, such as the one a TransactWrite is given.

    Item operations reach it without passing through botocore, unless `through_botocore` or the engine injects faults:
    who listens to botocore's events, or needs its retries, wants that.
    """
    connection.region = connection.region or REGION
    connection.host = connection.host or ENDPOINT
    # Static dummies: with none, botocore would ask the machine and PynamoDB would make a new client for every request.
    connection.session.set_credentials("callboard", "embedded")
    client = connection.client
    if isinstance(client, shortcut.Direct):  # of an engine before this one
        client = client.behind
    attach(client, engine)
    direct = not (through_botocore or engine.injects_faults)
    standing_in: Any = shortcut.Direct(client, engine) if direct else client
    connection._client = standing_in


def _unsigned(**_: Any) -> Any:
    return botocore.UNSIGNED


def _responder(engine: Engine) -> Any:
    def respond(request: AWSPreparedRequest, **_: Any) -> AWSResponse:
        target = request.headers["X-Amz-Target"]
        operation = (target.decode() if isinstance(target, bytes) else target).rpartition(".")[2]
        try:
            return _response(request.url, 200, engine.execute(operation, json.loads(request.body or b"{}")))
        except LostMessage as lost:
            # What a broken connection looks like to botocore: it may retry, and then tells the caller.
            raise ConnectionClosedError(endpoint_url=request.url, request=request, error=lost) from lost
        except EngineError as error:
            return _response(request.url, error.status, error.body())

    return respond


class _Body:
    """The body, read the way botocore reads a urllib3 response."""

    def __init__(self, content: bytes) -> None:
        self._content = content

    def stream(self, *_: object, **__: object) -> Iterator[bytes]:
        yield self._content


def _response(url: str, status: int, answer: dict[str, Any]) -> AWSResponse:
    content = json.dumps(answer, separators=(",", ":")).encode()
    # No x-amz-crc32: it guards against damage on the wire, and there is none.
    return AWSResponse(url, status, dict(shortcut.HEADERS), _Body(content))
