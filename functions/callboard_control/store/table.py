"""The connection to the one table: writes, transactions, reads and pages, with errors mapped and lost answers retried.

Every write that may be retried is idempotent by its own condition: a retry that finds its effect already there is told
apart by the caller (it looks at the item), never by hoping.
"""

from __future__ import annotations

import base64
import json
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar, cast

from pynamodb.connection import Connection
from pynamodb.exceptions import DoesNotExist
from pynamodb.expressions.condition import Condition
from pynamodb.expressions.update import Action
from pynamodb.transactions import TransactWrite
from tenacity import Retrying, retry_if_exception_type, stop_after_attempt, wait_random_exponential

from callboard_control.errors import InvalidRequest, TooLarge
from callboard_control.store.errors import ConditionFailed, Contended, RequestRefused, mapped
from callboard_control.store.models import Item

M = TypeVar("M", bound=Item)
CONTENTION_TRIES: Final = 6
BATCH: Final = 100
MAX_PK_BYTES: Final = 2048
MAX_SK_BYTES: Final = 1024
MAX_ITEM_BYTES: Final = 300_000
"""Of what people may make an item of; the table's own limit is 400 KB."""
INVALID_CURSOR: Final = "invalid_cursor"


def connection() -> Connection:
    """The process's one connection. Built through the base model, so that every model inherits it: a client of its own
    for each of fifteen models would cost about 70 ms of CPU each at a cold start."""
    return Item._get_connection().connection


def reconnect() -> Connection:
    """A new client for the process. botocore allows a client so many retries and gives them back by successes only, so
    one that met many faults (a simulation's) retries no more."""
    Item._connection = None
    return connection()


def ensure() -> None:
    """Create the table with its indexes if there is none (embedded engine and tests; on AWS the template does it)."""
    with mapped():
        if not Item.exists():
            Item.create_table(wait=False)


@dataclass(frozen=True, slots=True)
class Put:
    item: Item
    condition: Condition | None = None


@dataclass(frozen=True, slots=True)
class Update:
    """`item` needs its keys only; nothing of it but the actions is written."""

    item: Item
    actions: Sequence[Action]
    condition: Condition | None = None


@dataclass(frozen=True, slots=True)
class Delete:
    item: Item
    condition: Condition | None = None


@dataclass(frozen=True, slots=True)
class Check:
    item: Item
    condition: Condition


Write = Put | Update | Delete | Check


def transact(writes: Sequence[Write]) -> None:
    """All of `writes` or none.

    Raises `ConditionFailed` with the positions (in `writes`) whose conditions failed, `Contended` when others kept
    interfering. One request token covers all retries: an answer lost after the effect is not taken for a refusal.
    """
    token = uuid.uuid4().hex
    _patiently(lambda: _commit(writes, token))


def _commit(writes: Sequence[Write], token: str) -> None:
    # PynamoDB sends checks, deletes, puts and updates in that order, and reasons come back in it: translate them.
    order = sorted(range(len(writes)), key=lambda i: _SENT_AS[type(writes[i])])
    try:
        with mapped(), TransactWrite(connection=connection(), client_request_token=token) as tx:
            for i in order:
                _add(tx, writes[i])
    except ConditionFailed as e:
        raise ConditionFailed(frozenset(order[i] for i in e.failed)) from e.__cause__


_SENT_AS: Final[dict[type[Any], int]] = {Check: 0, Delete: 1, Put: 2, Update: 3}


def _add(tx: TransactWrite, write: Write) -> None:
    match write:
        case Check(item, condition):
            tx.condition_check(type(item), item.pk, item.sk, condition=condition)
        case Delete(item, condition):
            tx.delete(item, condition=condition)
        case Put(item, condition):
            tx.save(item, condition=condition)
        case Update(item, actions, condition):
            tx.update(item, actions=list(actions), condition=condition)


def refuse_oversized(item: Item, what: str) -> None:
    """Raises `TooLarge` for an item that the table would refuse: to its sender that would look like an outage."""
    size = len(json.dumps(item.serialize(), ensure_ascii=False).encode("utf-8", "replace"))
    if size > MAX_ITEM_BYTES:
        raise TooLarge(f"{what} has {size} bytes; {MAX_ITEM_BYTES} fit.", bytes=size)


def put(item: Item, condition: Condition | None = None) -> None:
    _patiently(lambda: _mapped(item.save, condition=condition))


def update(item: M, actions: Sequence[Action], condition: Condition | None = None) -> M:
    """Apply `actions` and return the item as it is afterwards."""
    _patiently(lambda: _mapped(item.update, actions=list(actions), condition=condition))
    return item


def delete(item: Item, condition: Condition | None = None) -> None:
    _patiently(lambda: _mapped(item.delete, condition=condition))


def get(model: type[M], pk: str, sk: str, *, consistent: bool = True) -> M | None:
    """The item, or None where there is none. A key longer than DynamoDB allows (ids come from paths) names nothing; to
    ask for it would be an error that looks like an outage."""
    if len(pk.encode()) > MAX_PK_BYTES or len(sk.encode()) > MAX_SK_BYTES:
        return None
    with mapped():
        try:
            return model.get(pk, sk, consistent_read=consistent)
        except DoesNotExist:
            return None


def get_many(model: type[M], keys: Iterable[tuple[str, str]], *, consistent: bool = True) -> list[M]:
    """The items that exist, in no order; more than 100 keys are asked for in several calls."""
    wanted = list(dict.fromkeys(keys))
    return [model.from_raw_data(raw) for raw in _batches(wanted, consistent=consistent)]


def get_together(*wanted: tuple[type[Item], str, str]) -> list[Any]:
    """Items of different kinds in one consistent call, each as its model, in the order asked for; None where there is
    none. A call for each kind cost a claim three calls more."""
    raws = _batches([(pk, sk) for _, pk, sk in wanted], consistent=True)
    found = {(raw["pk"]["S"], raw["sk"]["S"]): raw for raw in raws}
    return [kind.from_raw_data(found[pk, sk]) if (pk, sk) in found else None for kind, pk, sk in wanted]


def _batches(wanted: Sequence[tuple[str, str]], *, consistent: bool) -> Iterator[dict[str, Any]]:
    """Below the models: PynamoDB's own batch reads one kind at a time, and asks for what a throttled table left out
    again at once, for as long as that takes."""
    table_name = Item.Meta.table_name
    for start in range(0, len(wanted), BATCH):
        some = {"Keys": [_key(pk, sk) for pk, sk in wanted[start : start + BATCH]], "ConsistentRead": consistent}
        pending: dict[str, Any] = {table_name: some}
        pause = 0.01
        while pending:
            with mapped():
                answer = connection().dispatch("BatchGetItem", {"RequestItems": pending})
            yield from answer["Responses"].get(table_name, ())
            pending = answer.get("UnprocessedKeys") or {}
            if pending:
                _sleep(pause)
                pause = min(2 * pause, 0.5)


def _key(pk: str, sk: str) -> dict[str, Any]:
    return {"pk": {"S": pk}, "sk": {"S": sk}}


@dataclass(frozen=True, slots=True)
class Rows:
    """A page of items and where the next one starts (None: this was the last)."""

    items: list[Any]
    cursor: str | None


def rows(
    source: type[Item] | Any,
    hash_key: str,
    condition: Condition | None = None,
    *,
    limit: int,
    cursor: str | None = None,
    forward: bool = True,
    consistent: bool = False,
    only: Sequence[str] | None = None,
) -> Rows:
    """One page of a model's partition (`source` a model) or of an index (`source` an index of it). `only` names the
    attributes to read, as the table calls them; the rest are absent.

    Raises `InvalidRequest` ``invalid_cursor`` for one that this list did not give out.
    """
    options: dict[str, Any] = {"scan_index_forward": forward, "limit": limit, "page_size": limit}
    if consistent:
        options["consistent_read"] = True
    if only is not None:
        options["attributes_to_get"] = list(only)
    start = _read_cursor(cursor, hash_key)
    try:
        with mapped():
            found = source.query(hash_key, range_key_condition=condition, last_evaluated_key=start, **options)
            items = list(found)
            more = found.last_evaluated_key
    except RequestRefused as e:
        if start is None:
            raise
        raise _no_cursor_of_this_list() from e  # other keys than this list has, or beyond its bounds
    return Rows(items, _write_cursor(more) if more else None)


def every(
    source: type[Item] | Any,
    hash_key: str,
    condition: Condition | None = None,
    *,
    page: int = 500,
    forward: bool = True,
    consistent: bool = False,
    only: Sequence[str] | None = None,
) -> Iterator[Any]:
    """All items of a partition of a model or an index, read `page` at a time as they are asked for."""
    options: dict[str, Any] = {"limit": page, "forward": forward, "consistent": consistent, "only": only}
    cursor = None
    while True:
        found = rows(source, hash_key, condition, cursor=cursor, **options)
        yield from found.items
        cursor = found.cursor
        if cursor is None:
            return


def after(item: Item) -> str:
    """The cursor that goes on behind `item`, for a list of a model's partition that ends before its page does."""
    return _write_cursor(_key(item.pk, item.sk))


def _write_cursor(key: dict[str, Any]) -> str:
    return base64.urlsafe_b64encode(json.dumps(key, separators=(",", ":")).encode()).decode().rstrip("=")


def _read_cursor(cursor: str | None, hash_key: str) -> dict[str, Any] | None:
    """A cursor may only continue the partition it came from: it is input, and must not open another tenant's."""
    if not cursor:
        return None
    try:
        key = json.loads(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
        values = {name: value["S"] for name, value in key.items()}
    except (ValueError, KeyError, TypeError, AttributeError) as e:
        raise _no_cursor_of_this_list() from e
    if key != {name: {"S": value} for name, value in values.items() if isinstance(value, str)}:
        raise _no_cursor_of_this_list()
    if hash_key not in (values.get("pk"), values.get("gpk"), values.get("rpk")):
        raise InvalidRequest("The cursor belongs to another list; start again without it.", code=INVALID_CURSOR)
    return cast("dict[str, Any]", key)


def _no_cursor_of_this_list() -> InvalidRequest:
    return InvalidRequest("The cursor is not one this list gave out; start again without it.", code=INVALID_CURSOR)


def _mapped(call: Callable[..., Any], **arguments: Any) -> None:
    with mapped():
        call(**arguments)


_patiently = Retrying(
    retry=retry_if_exception_type(Contended),
    stop=stop_after_attempt(CONTENTION_TRIES),
    wait=wait_random_exponential(multiplier=0.01, max=0.5),
    sleep=lambda seconds: _sleep(seconds),
    reraise=True,
)
"""Call it with a write; tried again while others interfere. A conflicting transaction is over in milliseconds, a
throttle in tens."""
_sleep: Callable[[float], None] = time.sleep


def use_sleep(sleep: Callable[[float], None]) -> Callable[[float], None]:
    """Let a simulation wait in its own time; returns what waited before."""
    global _sleep
    before, _sleep = _sleep, sleep
    return before
