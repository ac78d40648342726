"""A person's tokens: made, listed, renewed, revoked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from callboard_control import ports
from callboard_control.actor import Person
from callboard_control.errors import NotFound
from callboard_control.identity import audit
from callboard_control.names import refuse_odd
from callboard_control.store import keys, table
from callboard_control.store.errors import ConditionFailed
from callboard_control.store.models import TokenItem
from callboard_control.tasks.record import at
from callboard_wire.api import CreateTokenRequest, Page, RenewedToken, TokenResponse, TokenView

DAY_MS: Final = 24 * 3600 * 1000
RENEW_WITHIN_MS: Final = 7 * DAY_MS
RENEWED_FOR_MS: Final = 90 * DAY_MS
T = TokenItem


@dataclass(frozen=True, slots=True)
class Minted:
    """A token that `item`, not yet written, makes good. `token` is shown once."""

    id: str
    token: str
    item: TokenItem


def minted(user_id: str, workspace_id: str, name: str, expires: int | None = None) -> Minted:
    """A new token for a person; `expires` in ms, None = never."""
    token_id = keys.new_id()
    token, digest = keys.mint(keys.PERSON, token_id)
    item = T(f"TO#{token_id}", "T", user_id=user_id, workspace_id=workspace_id, name=name, digest=digest)
    item.created, item.expires = ports.now_ms(), expires
    item.gpk, item.gsk = f"US#{user_id}#TO", token_id
    return Minted(token_id, token, item)


def create(person: Person, request: CreateTokenRequest) -> TokenResponse:
    """A further token for the same person and workspace. Shown once."""
    refuse_odd(request.name)
    expires = ports.now_ms() + request.expires_in_days * DAY_MS if request.expires_in_days else None
    made = minted(person.user_id, person.workspace_id, request.name, expires)
    deed = audit.put(person, "token_created", f"token:{made.id}", name=request.name)
    table.transact([table.Put(made.item, T.pk.does_not_exist()), deed])
    return TokenResponse(
        id=made.id,
        token=made.token,
        user_id=person.user_id,
        workspace_id=person.workspace_id,
        expires_at=at(expires),
    )


def renew(person: Person) -> RenewedToken:
    """Extend the caller's own token in place when a week or less is left; earlier, and without an end, nothing changes.
    Several programs share one login, so the secret stays."""
    item = table.get(T, f"TO#{person.token_id}", "T")
    now = ports.now_ms()
    if item is None or item.expires is None or int(item.expires) - now > RENEW_WITHIN_MS:
        return RenewedToken(renewed=False, expires_at=at(item.expires) if item is not None else None)
    expires = now + RENEWED_FOR_MS
    extended = table.Update(T(item.pk, "T"), [T.expires.set(expires)], T.revoked.does_not_exist())
    try:
        table.transact([extended, audit.put(person, "token_renewed", f"token:{person.token_id}")])
    except ConditionFailed as e:
        raise NotFound.of("token", person.token_id) from e
    return RenewedToken(renewed=True, expires_at=at(expires))


def list_tokens(person: Person, cursor: str | None) -> Page[TokenView]:
    page = table.rows(T.list_index, f"US#{person.user_id}#TO", limit=50, cursor=cursor, forward=False)
    items = sorted(table.get_many(T, [(row.pk, "T") for row in page.items]), key=lambda t: t.pk, reverse=True)
    views = [
        TokenView(
            id=t.pk.removeprefix("TO#"),
            name=t.name,
            created_at=at(t.created),
            expires_at=at(t.expires),
            last_used_at=at(t.last_used),
            revoked=t.revoked is not None,
        )
        for t in items
    ]
    return Page[TokenView](items=views, next_cursor=page.cursor)


def revoke(person: Person, token_id: str) -> None:
    """Make a token of this person useless at once. Revoking twice is fine; another person's token is not found."""
    if table.get(T, f"TO#{token_id}", "T") is None:
        raise NotFound.of("token", token_id)
    mine = T.user_id == person.user_id
    revoked = table.Update(T(f"TO#{token_id}", "T"), [T.revoked.set(ports.now_ms())], mine)
    try:
        table.transact([revoked, audit.put(person, "token_revoked", f"token:{token_id}")])
    except ConditionFailed as e:
        raise NotFound.of("token", token_id) from e
