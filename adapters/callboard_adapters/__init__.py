"""Drive coding-agent CLIs: one interface, one adapter a provider.

backend = create_backend("claude", BackendConfig())
session = await backend.execute("Fix the failing test", ExecOptions(cwd="/src/project"))
async for message in session.messages:
    print(message.type, message.content)
result = await session.result()
"""

from callboard_adapters.backend import Backend, create_backend
from callboard_adapters.errors import (
    AdapterError,
    ArgumentsTooLarge,
    ExecutableNotFound,
    ExecutableNotRunnable,
    ExecutionError,
    LaunchRefused,
    ProviderClash,
    SpawnFailed,
    UnknownProvider,
    VersionUnsupported,
    WorkdirMissing,
)
from callboard_adapters.messages import (
    FailureDetail,
    Message,
    MessageType,
    Result,
    RunStatus,
    StreamCounts,
    TokenUsage,
    Watchdog,
)
from callboard_adapters.options import BackendConfig, ExecOptions
from callboard_adapters.registry import providers
from callboard_adapters.session import Session

__all__ = [
    "AdapterError",
    "ArgumentsTooLarge",
    "Backend",
    "BackendConfig",
    "ExecOptions",
    "ExecutableNotFound",
    "ExecutableNotRunnable",
    "ExecutionError",
    "FailureDetail",
    "LaunchRefused",
    "Message",
    "MessageType",
    "ProviderClash",
    "Result",
    "RunStatus",
    "Session",
    "SpawnFailed",
    "StreamCounts",
    "TokenUsage",
    "UnknownProvider",
    "VersionUnsupported",
    "Watchdog",
    "WorkdirMissing",
    "create_backend",
    "providers",
]
