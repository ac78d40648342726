"""Puts the one-machine control plane together: store, ports, functions, front door, schedule.

The order matters: the environment first, because entry points and models read it once, when they are imported.
"""

from __future__ import annotations

import os
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from callboard_control.embedded.doorbell import LocalDoorbell
from callboard_control.embedded.folder import DataFolder, GatewayError
from callboard_control.embedded.front import Front
from callboard_control.embedded.gateway import Gateway
from callboard_control.embedded.metrics import Metrics
from callboard_control.embedded.routes import Function, Handler
from callboard_control.embedded.scheduler import Scheduler

if TYPE_CHECKING:
    from callboard_control.embedded.engine import Engine

TABLE: Final = "callboard"
HELD: Final = {"claim": 28.0}
"""Functions whose calls wait for work, and their timeouts in seconds: the template's."""

ENVIRONMENT: Final = {
    "CALLBOARD_TABLE": TABLE,
    "CALLBOARD_STAGE": "local",
    # Nothing here may reach AWS: no account is looked up on the machine or at a metadata service.
    "AWS_REGION": "us-east-1",
    "AWS_DEFAULT_REGION": "us-east-1",
    "AWS_ACCESS_KEY_ID": "local",
    "AWS_SECRET_ACCESS_KEY": "local",
    "AWS_EC2_METADATA_DISABLED": "true",
    "AWS_CONFIG_FILE": os.devnull,
    "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
    "POWERTOOLS_SERVICE_NAME": "callboard",
    # Metrics for CloudWatch are lines on stdout; here /metrics has what they say.
    "POWERTOOLS_METRICS_DISABLED": "true",
}
FOREIGN: Final = (
    "AWS_PROFILE",
    "AWS_DEFAULT_PROFILE",
    "AWS_SESSION_TOKEN",
    "AWS_ENDPOINT_URL",
    "AWS_ENDPOINT_URL_DYNAMODB",
)
"""A developer's own settings for AWS, which would redirect or break the store."""


def compose(data: Path, *, new_secret: bool = False) -> Gateway:
    """The gateway on the data folder `data`, not yet listening. One at a time in a process: it sets ports and store.
    `new_secret` opens a way back in for the first person.

    Raises:
        GatewayError: the folder cannot be used.
    """
    folder = DataFolder(data)
    folder.open(new_secret=new_secret)
    try:
        return _composed(folder)
    except BaseException:
        folder.close()
        raise


def _composed(folder: DataFolder) -> Gateway:
    _set_environment()
    _set_limits()
    engine = _open_store(folder)
    try:
        doorbell = LocalDoorbell()
        _set_ports(folder, doorbell)
        _settle_secret(folder)
        front = Front(_functions(), ready=_ready)
        scheduler = Scheduler(_sweep(engine, front.metrics), front.metrics)
    except BaseException:
        engine.close()
        raise
    back = _bootstrapped()
    return Gateway(folder, front, doorbell, scheduler=scheduler, close_store=engine.close, somebody_was_here=back)


def _set_environment() -> None:
    for name in FOREIGN:
        os.environ.pop(name, None)
    os.environ.update(ENVIRONMENT)
    os.environ.setdefault("POWERTOOLS_LOG_LEVEL", "WARNING")


def _set_limits() -> None:
    from callboard_control.identity import limits

    try:
        limits.use(limits.Limiter(limits.Rates.from_environment()))
    except ValueError as failure:
        raise GatewayError(str(failure)) from failure


def _open_store(folder: DataFolder) -> Engine:
    from callboard_control.embedded.engine import Engine, StorageError, attach_connection
    from callboard_control.store import table

    try:
        engine = Engine(folder.database)
    except StorageError as failure:
        raise GatewayError(f"The store in {folder.path} cannot be used: {failure}") from failure
    attach_connection(engine, table.connection())
    table.ensure()
    expiry = engine.execute("DescribeTimeToLive", {"TableName": TABLE})["TimeToLiveDescription"]
    if expiry["TimeToLiveStatus"] == "DISABLED":
        wanted = {"AttributeName": "ttl", "Enabled": True}
        engine.execute("UpdateTimeToLive", {"TableName": TABLE, "TimeToLiveSpecification": wanted})
    return engine


def _set_ports(folder: DataFolder, doorbell: LocalDoorbell) -> None:
    from callboard_control import ports
    from callboard_control.embedded.secrets import LocalSecrets

    key_file = folder.path / "secrets.key"
    try:
        secrets = LocalSecrets(key_file)
    except (OSError, ValueError) as failure:
        reason = getattr(failure, "strerror", None) or "it holds no key"
        raise GatewayError(f"The key file {key_file} cannot be used ({reason}): restore it from a copy.") from failure
    ports.use(
        ports.Ports(
            doorbell=doorbell,
            secrets=secrets,
            bootstrap_secret=folder.bootstrap_secret,
            forget_bootstrap_secret=folder.forget_secret,
        )
    )


def _settle_secret(folder: DataFolder) -> None:
    """A secret that was used is gone, also when the login's process died before it could; and while nobody has logged
    in there is one, or nobody ever could (an empty database, a first start cut short, a file tidied away)."""
    from callboard_control.identity import first_login
    from callboard_control.store import table
    from callboard_control.store.models import SystemItem

    first, secret = table.get(SystemItem, *first_login.FIRST), folder.bootstrap_secret()
    if first is not None and secret is not None and first_login.is_used(first, secret):
        folder.forget_secret()
    if first is None and secret is None:
        folder.write_secret()


def _bootstrapped() -> bool:
    from callboard_control.store import table
    from callboard_control.store.models import SystemItem

    return table.get(SystemItem, "SYS", "BOOTSTRAP") is not None


def _ready() -> None:
    _bootstrapped()


def _functions() -> list[Function]:
    from callboard_control.entrypoints import HTTP
    from callboard_wire.bodies import build_all

    functions = []
    modules = {name: import_module(path) for name, path in HTTP.items()}
    build_all()
    for name, module in modules.items():
        function = Function(name, module.handler, module.app.declared())
        functions.append(replace(function, held=True, timeout_s=HELD[name]) if name in HELD else function)
    return functions


def _sweep(engine: Engine, metrics: Metrics) -> Handler:
    """The minute's sweep, and what DynamoDB does by itself: deleting what has expired. Its counts become gauges."""
    from callboard_control.entrypoints import SCHEDULED

    tick: Handler = import_module(SCHEDULED["tick"]).handler
    last: dict[str, float] = {}
    metrics.gauge(
        "last_sweep",
        "What the last sweep of the minute found and did.",
        lambda: {(("what", what),): count for what, count in dict(last).items()},
    )

    def sweep(event: dict[str, Any], context: Any) -> Any:
        answer = tick(event, context)
        last.update({what: float(count) for what, count in answer.items()}, deleted=float(engine.sweep_expired()))
        return answer

    return sweep
