"""The one table, as PynamoDB models: which items there are, under which keys, and what each attribute means.

    item       pk             sk            on index `list` (gpk / gsk)            on index `ready` (rpk / rsk)
    workspace  WS#<ws>        W
    member     WS#<ws>        ME#<user>     US#<user> / WS#<ws>
    agent      WS#<ws>        AG#<agent>
    agent name WS#<ws>        AN#<name>
    runtime    WS#<ws>        RT#<runtime>
    audit      WS#<ws>#AUDIT  <time>#<id>
    invitation IN#<id>        I             WS#<ws>#IN / <id>
    user       US#<user>      U
    token      TO#<token>     T             US#<user>#TO / <token>
    daemon     DM#<daemon>    D             DAEMON#<shard> / <daemon>
    task       TK#<task>      T             WS#<ws>#T / <created>#<task>           RT#<runtime> / <turn>#<task>#…
                                                                          deferred: DF#<shard> / <fire_at>#<task>#…
    usage      RT#<runtime>#U <claimed>#<task>#<fence>
    messages   TK#<task>      M#<fence>#<first seq>
    text       TK#<task>      B#<name>#<part>
    receipt    TK#<task>      J               (a wish with a key of its own that joined another task)
    pending    PN#<issue>     <agent>
    secret     SC#<name>      <version>     (one machine only)
    conversation CV#<agent>   <lane>
    slot       AG#<agent>     SLOT          BUSY#<daemon> / <agent>   (while it may hold tasks)
    system     SYS            <what>

Times are integers, milliseconds since 1970 by the server's clock. Attribute names are short because a write is paid by
the kilobyte and a plain task's item must stay below one. TTL only deletes what nobody needs any more.
"""

from __future__ import annotations

import os
from typing import Any, Final

from pynamodb.attributes import (
    BinaryAttribute,
    BooleanAttribute,
    JSONAttribute,
    ListAttribute,
    NumberAttribute,
    UnicodeAttribute,
    UnicodeSetAttribute,
)
from pynamodb.indexes import GlobalSecondaryIndex, KeysOnlyProjection
from pynamodb.models import Model

SHARDS: Final = 8
TABLE_ENV: Final = "CALLBOARD_TABLE"


class ListIndex(GlobalSecondaryIndex["Item"]):  # type: ignore[no-untyped-call]  # PynamoDB's own hook is untyped
    class Meta:
        index_name = "list"
        projection = KeysOnlyProjection()

    gpk = UnicodeAttribute(hash_key=True)
    gsk = UnicodeAttribute(range_key=True)


class ReadyIndex(GlobalSecondaryIndex["Item"]):  # type: ignore[no-untyped-call]  # as above
    class Meta:
        index_name = "ready"
        projection = KeysOnlyProjection()

    rpk = UnicodeAttribute(hash_key=True)
    rsk = UnicodeAttribute(range_key=True)


class Item(Model):
    """What every item has. Subclasses inherit the connection too, so a process makes one client."""

    class Meta:
        table_name = os.environ.get(TABLE_ENV, "callboard")
        region = os.environ.get("AWS_REGION", "us-east-1")
        billing_mode = "PAY_PER_REQUEST"
        # A call must have failed in under 10 s, while its caller still listens: three tries and botocore's pauses. Its
        # default is 60 s a try, which the HTTP API's own limit of 30 s turns into an answer without a reason.
        connect_timeout_seconds = 1
        read_timeout_seconds = 2
        max_retry_attempts = 2
        max_pool_connections = 20

    list_index = ListIndex()
    ready_index = ReadyIndex()
    pk = UnicodeAttribute(hash_key=True)
    sk = UnicodeAttribute(range_key=True)
    gpk = UnicodeAttribute(null=True)
    gsk = UnicodeAttribute(null=True)
    rpk = UnicodeAttribute(null=True)
    rsk = UnicodeAttribute(null=True)
    ttl = NumberAttribute(null=True)


class WorkspaceItem(Item):
    name = UnicodeAttribute(attr_name="nm")
    context = UnicodeAttribute(attr_name="cx", null=True)
    repos: JSONAttribute = JSONAttribute(attr_name="rp", null=True)
    settings: JSONAttribute = JSONAttribute(attr_name="se", null=True)
    model_profiles: JSONAttribute = JSONAttribute(attr_name="mpr", null=True)
    created = NumberAttribute(attr_name="ct")


class MemberItem(Item):
    user_id = UnicodeAttribute(attr_name="us")
    workspace_id = UnicodeAttribute(attr_name="ws")
    role = UnicodeAttribute(attr_name="ro")
    created = NumberAttribute(attr_name="ct")


class UserItem(Item):
    name = UnicodeAttribute(attr_name="nm")
    email = UnicodeAttribute(attr_name="em", null=True)
    created = NumberAttribute(attr_name="ct")


class TokenItem(Item):
    user_id = UnicodeAttribute(attr_name="us")
    workspace_id = UnicodeAttribute(attr_name="ws")
    name = UnicodeAttribute(attr_name="nm")
    digest = BinaryAttribute(attr_name="hs", legacy_encoding=False)
    created = NumberAttribute(attr_name="ct")
    expires = NumberAttribute(attr_name="ex", null=True)
    revoked = NumberAttribute(attr_name="rv", null=True)
    last_used = NumberAttribute(attr_name="lu", null=True)


class InvitationItem(Item):
    """A link to join by."""

    workspace_id = UnicodeAttribute(attr_name="ws")
    role = UnicodeAttribute(attr_name="ro")
    digest = BinaryAttribute(attr_name="hs", legacy_encoding=False)
    created_by = UnicodeAttribute(attr_name="cb")
    uses_left = NumberAttribute(attr_name="ul")
    expires = NumberAttribute(attr_name="ex")
    created = NumberAttribute(attr_name="ct")


class AuditItem(Item):
    actor = UnicodeAttribute(attr_name="by")
    token_id = UnicodeAttribute(attr_name="to", null=True)
    action = UnicodeAttribute(attr_name="ac")
    thing = UnicodeAttribute(attr_name="th")
    details: JSONAttribute = JSONAttribute(attr_name="de", null=True)
    created = NumberAttribute(attr_name="ct")


class SystemItem(Item):
    """A fact that may exist once, such as "the first person has been made"."""

    value = UnicodeAttribute(attr_name="v", null=True)
    digest = BinaryAttribute(attr_name="hs", legacy_encoding=False, null=True)
    created = NumberAttribute(attr_name="ct")


class AgentItem(Item):
    id = UnicodeAttribute(attr_name="id")
    workspace_id = UnicodeAttribute(attr_name="ws")
    name = UnicodeAttribute(attr_name="nm")
    description = UnicodeAttribute(attr_name="ds", null=True)
    instructions = UnicodeAttribute(attr_name="in", null=True)
    runtime_id = UnicodeAttribute(attr_name="rt", null=True)
    provider = UnicodeAttribute(attr_name="pv", null=True)
    model = UnicodeAttribute(attr_name="mo", null=True)
    thinking_level = UnicodeAttribute(attr_name="tl", null=True)
    service_tier = UnicodeAttribute(attr_name="sv", null=True)
    model_profile = UnicodeAttribute(attr_name="mp", null=True)
    custom_args: ListAttribute[str] = ListAttribute(attr_name="ca", null=True)
    mcp_config: JSONAttribute = JSONAttribute(attr_name="mc", null=True)
    runtime_config: JSONAttribute = JSONAttribute(attr_name="rc", null=True)  # without the gateway's token
    gateway_token_version = UnicodeAttribute(attr_name="gv", null=True)
    max_concurrent_tasks = NumberAttribute(attr_name="mx")
    max_turns = NumberAttribute(attr_name="mt", null=True)
    env_version = UnicodeAttribute(attr_name="ev", null=True)
    env_key_count = NumberAttribute(attr_name="ek", null=True)
    owner_id = UnicodeAttribute(attr_name="ow", null=True)
    permission_mode = UnicodeAttribute(attr_name="pm", null=True)  # absent: private
    invocation_targets: ListAttribute[str] = ListAttribute(attr_name="it", null=True)
    skills: ListAttribute[str] = ListAttribute(attr_name="sl", null=True)
    archived = NumberAttribute(attr_name="ar", null=True)
    created = NumberAttribute(attr_name="ct")


class SecretItem(Item):
    """One version of an agent's secret, encrypted (one machine only; on AWS it is in Secrets Manager)."""

    body = BinaryAttribute(attr_name="b", legacy_encoding=False)


class AgentNameItem(Item):
    """Holds a name for one agent of the workspace, archived ones included."""

    agent_id = UnicodeAttribute(attr_name="ag")


class RuntimeItem(Item):
    id = UnicodeAttribute(attr_name="id")
    workspace_id = UnicodeAttribute(attr_name="ws")
    daemon = UnicodeAttribute(attr_name="dm")
    provider = UnicodeAttribute(attr_name="pv")
    profile_id = UnicodeAttribute(attr_name="pf", null=True)
    name = UnicodeAttribute(attr_name="nm")
    custom_name = UnicodeAttribute(attr_name="cn", null=True)
    version = UnicodeAttribute(attr_name="vn", null=True)
    owner_id = UnicodeAttribute(attr_name="ow", null=True)
    visibility = UnicodeAttribute(attr_name="vi", null=True)  # absent: private
    max_concurrent_tasks = NumberAttribute(attr_name="mx", null=True)  # absent: as many as the machine has slots
    offline = NumberAttribute(attr_name="of", null=True)
    offline_reason: JSONAttribute = JSONAttribute(attr_name="or", null=True)
    closing = NumberAttribute(attr_name="cl", null=True)  # being deleted: no agent may be put on it
    created = NumberAttribute(attr_name="ct")


class DaemonItem(Item):
    """One machine in one workspace. `seen` is the liveness of all its runtimes: one write a beat."""

    workspace_id = UnicodeAttribute(attr_name="ws")
    daemon_id = UnicodeAttribute(attr_name="di")
    owner_id = UnicodeAttribute(attr_name="ow", null=True)
    device_name = UnicodeAttribute(attr_name="dn", null=True)
    cli_version = UnicodeAttribute(attr_name="cv", null=True)
    digest = BinaryAttribute(attr_name="hs", legacy_encoding=False, null=True)
    runtimes: JSONAttribute = JSONAttribute(attr_name="rts")
    profiles_version = NumberAttribute(attr_name="pfv", null=True)
    seen = NumberAttribute(attr_name="sn")
    created = NumberAttribute(attr_name="ct")


class TaskItem(Item):
    id = UnicodeAttribute(attr_name="id")
    workspace_id = UnicodeAttribute(attr_name="ws")
    agent_id = UnicodeAttribute(attr_name="ag")
    runtime_id = UnicodeAttribute(attr_name="rt")
    status = UnicodeAttribute(attr_name="st")
    kind = UnicodeAttribute(attr_name="kd", null=True)
    priority = NumberAttribute(attr_name="pr", null=True)
    prompt = UnicodeAttribute(attr_name="pm", null=True)
    prompt_parts = NumberAttribute(attr_name="pp", null=True)
    thread_name = UnicodeAttribute(attr_name="tn", null=True)
    issue_id = UnicodeAttribute(attr_name="is", null=True)
    chat_session_id = UnicodeAttribute(attr_name="ch", null=True)
    lane = UnicodeAttribute(attr_name="ln", null=True)
    request_digest = BinaryAttribute(attr_name="rd", legacy_encoding=False, null=True)
    coalesced: ListAttribute[str] = ListAttribute(attr_name="cl", null=True)
    attempt = NumberAttribute(attr_name="at", null=True)
    max_attempts = NumberAttribute(attr_name="ma", null=True)
    timeout_s = NumberAttribute(attr_name="to", null=True)
    model_profile = UnicodeAttribute(attr_name="mpf", null=True)
    created = NumberAttribute(attr_name="ct")
    queued = NumberAttribute(attr_name="qu", null=True)  # since when it may be claimed, where that is not `created`
    dispatched = NumberAttribute(attr_name="dt", null=True)
    started = NumberAttribute(attr_name="sr", null=True)
    ended = NumberAttribute(attr_name="et", null=True)
    fire_at = NumberAttribute(attr_name="fa", null=True)
    waits_for_runtime = BooleanAttribute(attr_name="wr", null=True)
    lease_until = NumberAttribute(attr_name="lu", null=True)
    fence = NumberAttribute(attr_name="fn", null=True)
    claim_id = UnicodeAttribute(attr_name="ci", null=True)
    token_digests = UnicodeSetAttribute(attr_name="td", null=True)
    wait_reason = UnicodeAttribute(attr_name="wt", null=True)
    output = UnicodeAttribute(attr_name="ou", null=True)
    output_parts = NumberAttribute(attr_name="op", null=True)
    error = UnicodeAttribute(attr_name="er", null=True)
    failure_reason = UnicodeAttribute(attr_name="fr", null=True)
    session_id = UnicodeAttribute(attr_name="si", null=True)
    prior_session_id = UnicodeAttribute(attr_name="psi", null=True)
    prior_work_dir = UnicodeAttribute(attr_name="pwd", null=True)
    retired_session_id = UnicodeAttribute(attr_name="rsi", null=True)
    work_dir = UnicodeAttribute(attr_name="wd", null=True)
    durable_work_dir = UnicodeAttribute(attr_name="dw", null=True)
    branch_name = UnicodeAttribute(attr_name="bn", null=True)
    session_rollout_missing = BooleanAttribute(attr_name="srm", null=True)
    force_fresh = BooleanAttribute(attr_name="ff", null=True)
    duration_ms = NumberAttribute(attr_name="du", null=True)
    retry_of = UnicodeAttribute(attr_name="ro", null=True)
    retried_by = UnicodeAttribute(attr_name="rb", null=True)
    rerun_of = UnicodeAttribute(attr_name="rr", null=True)
    moves: ListAttribute[str] = ListAttribute(attr_name="mv", null=True)


class PendingItem(Item):
    """At most one queued task for an issue and an agent; a second wish joins the first."""

    task_id = UnicodeAttribute(attr_name="tk")


class ReceiptItem(Item):
    """A wish made under an idempotency key has joined `task_id` instead of becoming a task."""

    task_id = UnicodeAttribute(attr_name="tk")
    request_digest = BinaryAttribute(attr_name="rd", legacy_encoding=False)


class ConversationItem(Item):
    """Where an agent's conversation about an issue or in a chat goes on."""

    session_id = UnicodeAttribute(attr_name="si", null=True)
    runtime_id = UnicodeAttribute(attr_name="rt", null=True)
    work_dir = UnicodeAttribute(attr_name="wd", null=True)
    retired = UnicodeSetAttribute(attr_name="rd", null=True)
    gap = BooleanAttribute(attr_name="gp", null=True)
    moved = NumberAttribute(attr_name="mo", null=True)


class SlotItem(Item):
    """An agent's running tasks as a set of ids, never a counter: adding and removing an id twice changes nothing, so
    capacity cannot drift. `lanes` are what may run only once at a time (an issue, a chat)."""

    running = UnicodeSetAttribute(attr_name="run", null=True)
    lanes = UnicodeSetAttribute(attr_name="lns", null=True)
    closed = NumberAttribute(attr_name="cd", null=True)


class UsageItem(Item):
    """What one run cost. It lies with its runtime, in order of time, so that a runtime's bill is one range of it."""

    rows: JSONAttribute = JSONAttribute(attr_name="us")


class MessagePack(Item):
    """One flush of messages: `first`..`last` under one fence, JSON, deflated when that is smaller."""

    first = NumberAttribute(attr_name="f")
    last = NumberAttribute(attr_name="l")
    body = BinaryAttribute(attr_name="b", legacy_encoding=False)
    packed = BooleanAttribute(attr_name="z", null=True)


class TextPart(Item):
    """A part of a text too long for its task's item (a prompt, an output), deflated."""

    body = BinaryAttribute(attr_name="b", legacy_encoding=False)


def new(kind: type[Any], /, **attributes: Any) -> Any:
    """An item of `kind`; attributes that are None or empty text are left out of the table."""
    return kind(**{k: v for k, v in attributes.items() if v is not None and v != ""})
