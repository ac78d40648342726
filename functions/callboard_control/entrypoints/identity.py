"""identity: first login, people's tokens, who am I."""

from __future__ import annotations

from typing import Annotated

from aws_lambda_powertools.event_handler.openapi.params import Query

from callboard_control.actor import person
from callboard_control.entrypoints._http import as_handler, caller, new_app
from callboard_control.identity import people
from callboard_wire.api import BootstrapRequest, CreateTokenRequest, MeView, Page, TokenResponse, TokenView

app = new_app()
handler = as_handler(app)


@app.post("/api/bootstrap")
def bootstrap(request: BootstrapRequest) -> TokenResponse:
    return people.bootstrap(request)


@app.get("/api/me")
def me() -> MeView:
    return people.me(caller(app))


@app.post("/api/tokens")
def create_token(request: CreateTokenRequest) -> TokenResponse:
    return people.create_token(person(caller(app)), request)


@app.get("/api/tokens")
def list_tokens(cursor: Annotated[str | None, Query(max_length=2000)] = None) -> Page[TokenView]:
    return people.list_tokens(person(caller(app)), cursor)


@app.delete("/api/tokens/<token_id>")
def revoke_token(token_id: str) -> dict[str, bool]:
    people.revoke_token(person(caller(app)), token_id)
    return {"revoked": True}
