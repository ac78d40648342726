"""From a provider's name to a started run."""

from __future__ import annotations

import os
import sys
import tempfile
import time
from pathlib import Path
from uuid import uuid4

from callboard_adapters import custom_args, doctor, registry
from callboard_adapters.base import Adapter, RunContext
from callboard_adapters.capabilities import Capabilities
from callboard_adapters.doctor import Finding
from callboard_adapters.errors import VersionUnsupported, WorkdirMissing
from callboard_adapters.messages import Message, MessageType
from callboard_adapters.options import BackendConfig, ExecOptions
from callboard_adapters.process.environment import chosen_env, default_env
from callboard_adapters.process.executable import find_executable, spawn_error
from callboard_adapters.process.files import Written
from callboard_adapters.process.probe import parse_version, probe_version
from callboard_adapters.rendering import Rendered
from callboard_adapters.session import Plan, Session


def create_backend(provider: str, config: BackendConfig | None = None) -> Backend:
    """The provider's backend on this machine. Raises `UnknownProvider`; whether the CLI is there shows at `execute`."""
    return Backend(registry.adapter_class(provider), config or BackendConfig())


class Backend:
    """One provider as it is set up here. Holds no state between runs."""

    def __init__(self, adapter: type[Adapter], config: BackendConfig) -> None:
        self._adapter = adapter
        self._config = config
        self.env = default_env() if config.env is None else chosen_env(config.env)
        """The environment every run starts from."""

    @property
    def capabilities(self) -> Capabilities:
        return self._adapter.capabilities

    def find(self) -> str:
        """The executable's absolute path. Raises `ExecutableNotFound` or `ExecutableNotRunnable`."""
        wanted = self._config.executable or self.capabilities.executable
        return find_executable(self.capabilities.name, str(wanted), self.env.get("PATH", os.defpath))

    async def test_environment(self) -> list[Finding]:
        """Is this provider ready here: found, executable, version, credentials, configuration. Starts no run."""
        wanted = str(self._config.executable or self.capabilities.executable)
        return await doctor.examine(self.capabilities, wanted, self.env, tuple(self._config.launch_prefix))

    def render(self, message: Message) -> Rendered:
        """A message as a UI shows it."""
        return self._adapter.render(message)

    async def execute(self, prompt: str, options: ExecOptions | None = None) -> Session:
        """Start a run. Raises an `ExecutionError` when it cannot start, and nothing for what happens afterwards."""
        options = options or ExecOptions()
        executable = self.find()
        cwd = self._workdir(options)
        run_id = options.run_id or uuid4().hex
        prefix = custom_args.filter_prefix(self._config.launch_prefix, self.capabilities)
        scratch = Path(tempfile.gettempdir()) / f"callboard-{run_id[:40]}-{uuid4().hex[:8]}"
        context = await self._context(executable, tuple(prefix.kept), cwd, run_id, str(scratch))
        plan = Plan(prompt, options, executable, tuple(prefix.kept), self.env, cwd, run_id, Written(scratch))
        session = Session(self._adapter(context), plan)
        try:
            notices = await session.prepare()
            await session.start([*map(_dropped, prefix.dropped), *notices])
        except BaseException as error:  # a cancel too: the files written for the run must not outlive it
            plan.written.undo()
            if isinstance(error, OSError | ValueError):
                raise spawn_error(self.capabilities.name, executable, error) from error
            raise
        return session

    def _workdir(self, options: ExecOptions) -> str:
        # Absolute, but links are kept: CLIs file their sessions under the path they were started in.
        cwd = str(Path(options.cwd).absolute() if options.cwd else Path.cwd())
        if not Path(cwd).is_dir():
            raise WorkdirMissing(f"the working directory {cwd} does not exist", provider=self.capabilities.name)
        return cwd

    async def _context(
        self, executable: str, prefix: tuple[str, ...], cwd: str, run_id: str, scratch: str
    ) -> RunContext:
        version, text = None, ""
        needed = self.capabilities.minimum_version
        if needed is not None:
            version, text = await probe_version(
                executable, prefix, self.capabilities.version_args, env=self.env, cwd=cwd
            )
            # An unreadable version is not an old one: wrappers and development builds print what they like.
            if version is not None and version < (parse_version(needed) or (0, 0, 0)):
                raise VersionUnsupported(self.capabilities.name, ".".join(map(str, version)), needed)
        return RunContext(
            provider=self.capabilities.name,
            executable=executable,
            launch_prefix=prefix,
            env=self.env,
            cwd=cwd,
            home=self.env.get("HOME") or str(Path.home()),
            scratch=scratch,
            run_id=run_id,
            unique=str(uuid4()),
            started_at=time.time(),
            platform=sys.platform,
            euid=os.geteuid() if hasattr(os, "geteuid") else None,
            version=version,
            version_text=text,
        )


def _dropped(flag: str) -> Message:
    return Message(MessageType.LOG, f"dropped {flag} from the launch prefix: the adapter sets it itself", level="warn")
