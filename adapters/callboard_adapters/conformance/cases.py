"""The cases of the suite. Each says in its docstring what must hold; `suite.check` runs them."""

from __future__ import annotations

import random
from dataclasses import replace

from callboard_adapters.base import Outcome
from callboard_adapters.capabilities import ArgMode, PromptVia
from callboard_adapters.conformance.suite import Bench, Case, Run, same_end, same_outcome
from callboard_adapters.messages import MessageType, RunStatus, Watchdog
from callboard_adapters.options import ExecOptions
from callboard_adapters.process.framing import MAX_LINE

_CUTS = 3000  # at most this many cuts of one recording
_DEATHS = 12  # at most this many processes that die half-way
_FUZZ = 300
_NARROW, _WIDE = 0.2, 5.0  # seconds: idle clocks, the narrowest and where the search for one that is wide enough ends


async def plays_whole(bench: Bench) -> None:
    """Undisturbed: one result, unique tool pairs, every message of a known type, the same in memory."""
    run = await bench.run()
    uses = [m.call_id for m in run.messages if m.type is MessageType.TOOL_USE]
    ends = [m.call_id for m in run.messages if m.type is MessageType.TOOL_RESULT]
    bench.expect(len(uses) == len(set(uses)), f"a tool call is announced twice: {uses}")
    bench.expect(len(ends) == len(set(ends)), f"a tool call ends twice: {ends}")
    bench.expect(set(ends) <= set(uses), f"a tool result without its call: {set(ends) - set(uses)}")
    _, outcome = bench.pure()
    if isinstance(outcome, Outcome) and not bench.recording.side_files:
        bench.expect(outcome.output == run.result.output, "in memory and as a process the answers differ")


async def command_line_is_safe(bench: Bench) -> None:
    """No line feed, no prompt (unless argv is the only way) and no secret on the command line; private files go again;
    a flag the adapter owns cannot be set by a user."""
    caps = bench.adapter.capabilities
    secret, prompt = "c4nary-s3cret", "first line\nsecond line"
    server = {"command": "x", "args": [], "env": {"TOKEN": secret}}
    options = ExecOptions(cwd="/work-dir", mcp_config={"mcpServers": {"a": server}})
    launch = bench.launch(prompt, options)
    argv = "\0".join(launch.args)
    bench.expect(secret not in argv, "a secret of the MCP configuration is on the command line")
    if caps.prompt is not PromptVia.ARGV:
        bench.expect("\n" not in argv, "an argument holds a line feed")
        bench.expect("second line" not in argv, "the prompt is on the command line")
    for file in launch.files:
        if secret.encode() in file.content:
            bench.expect(file.mode & 0o077 == 0, f"{file.path} holds a secret and is not private")
            bench.expect(file.after != "keep", f"{file.path} holds a secret and stays after the run")
    for flag, mode in caps.blocked_args.items():
        value = [] if mode is ArgMode.STANDALONE else ["c4nary-value"]
        args = bench.launch("hello", ExecOptions(cwd="/work-dir", custom_args=[flag, *value])).args
        bench.expect("c4nary-value" not in args, f"a user can set {flag}")


async def cut_at_every_byte(bench: Bench) -> None:
    """Where the operating system cuts the stream changes nothing."""
    if bench.recording.client[1:]:
        return  # a conversation: its lines come one by one anyway, see `one_byte_writes`
    data = b"".join(line + b"\n" for line in bench.recording.lines)
    _, whole = bench.pure([data])
    step = max(1, len(data) // _CUTS)
    for at in range(0, len(data) + 1, step):
        _, outcome = bench.pure([data[:at], data[at:]])
        if outcome != whole:
            same_outcome(bench, outcome, whole, f"cut at byte {at}")
            return


async def one_byte_writes(bench: Bench) -> None:
    """Tiny writes, as a process."""
    size = sum(map(len, bench.recording.lines))
    whole = await bench.run()
    tiny = await bench.run(chunk=1 if size < 64_000 else 997)
    same_end(bench, tiny.result, whole.result, "tiny writes")
    bench.expect(tiny.said == whole.said, "tiny writes: other messages")


async def line_ends(bench: Bench) -> None:
    """CR LF, and a last line without its line end, change nothing."""
    whole = await bench.run()
    same_end(bench, (await bench.run(crlf=True)).result, whole.result, "CR LF")
    same_end(bench, (await bench.run(no_last_newline=True)).result, whole.result, "no last line end")


async def noise_between_lines(bench: Bench) -> None:
    """Foreign lines and bytes that are not UTF-8 are counted and change nothing."""
    if bench.recording.text:
        return
    whole = await bench.run()
    noisy = await bench.run(noise=True)
    same_end(bench, noisy.result, whole.result, "noise")
    bench.expect(noisy.said == whole.said, "noise: other messages")
    if bench.recording.lines:
        bench.expect(noisy.result.counts.noise_lines > 0, "noise was not counted")


async def dies_after_each_line(bench: Bench) -> None:
    """A CLI that dies half-way has completed nothing, unless it had said its last word."""
    run, _ = bench.pure()
    total = len(bench.recording.lines)
    step = max(1, total // _DEATHS)
    for after in range(0, total, step):
        ended = run.turn_ends[after - 1] if 0 < after <= len(run.turn_ends) else False
        for killed in (False, True):
            died = await bench.run(die_after=after, killed=killed)
            completed = died.result.status is RunStatus.COMPLETED
            bench.expect(ended or not completed, f"dead after line {after} (killed: {killed}) and yet completed")


async def silent_exit(bench: Bench) -> None:
    """Exit 0 and not one byte is no success."""
    silent = replace(bench.recording, lines=(), client=(), sent_after=(), stderr="", exit=0, resume=None, side_files={})
    run = await Bench(bench.case, bench.adapter, silent, bench.folder, bench.report).run(close_stdin=True)
    bench.expect(run.result.status is RunStatus.FAILED, f"nothing was said and the run is {run.result.status}")


async def stdin_closed_early(bench: Bench) -> None:
    """A CLI that closes its stdin at once can still answer; a broken pipe is no failure of its own."""
    if bench.recording.client[1:]:
        return  # a conversation cannot go on without its input
    whole = await bench.run()
    closed = await bench.run(close_stdin=True)
    same_end(bench, closed.result, whole.result, "stdin closed early")


async def huge_line(bench: Bench) -> None:
    """A line over the limit ends the run with a reason that names the size, and the CLI with it."""
    run = await bench.run(big_line=MAX_LINE + 1)
    bench.expect(run.result.status is RunStatus.FAILED, f"status {run.result.status}")
    bench.expect(str(MAX_LINE) in run.result.error, f"the reason does not name the limit: {run.result.error!r:.200}")


async def leaves_processes(bench: Bench) -> None:
    """What the CLI leaves behind, also in another session and holding its stdout, is gone with the result."""
    whole = await bench.run()
    left = await bench.run(leave_behind=True)
    same_end(bench, left.result, whole.result, "processes left behind")


async def never_exits(bench: Bench) -> None:
    """A CLI that goes on living after its last word is ended, and its answer stands."""
    run, _ = bench.pure()
    if run.turn_ended:
        whole = await bench.run()
        lingering = await bench.run(linger=True, stubborn=True)
        same_end(bench, lingering.result, whole.result, "lingering")


async def hung_and_deaf(bench: Bench) -> None:
    """A CLI that hangs and ignores TERM: timeout by the hard limit, and nothing left."""
    run = await bench.run(stop_after=0, stubborn=True, options={"timeout": 0.4})
    bench.expect(run.result.status is RunStatus.TIMEOUT, f"status {run.result.status}")
    _watchdog(bench, run.result.failure, Watchdog.HARD)


async def handshake_or_first_word(bench: Bench) -> None:
    """A CLI that never says a word trips the handshake clock."""
    run = await bench.run(stop_after=0, options={"handshake_timeout": 0.4})
    bench.expect(run.result.status is RunStatus.TIMEOUT, f"status {run.result.status}")
    _watchdog(bench, run.result.failure, Watchdog.HANDSHAKE)


async def idle_and_tool_clocks(bench: Bench) -> None:
    """Silence between tools trips the idle clock; while a tool runs only the wider tool clock counts."""
    run, _ = bench.pure()
    lines = len(bench.recording.lines)
    tool = next((i + 1 for i, n in enumerate(run.tools_open) if n and i + 1 < lines), None)
    if tool is not None:
        hung = await _hung_in_a_tool(bench, tool)
        _watchdog(bench, hung.result.failure, Watchdog.TOOL)
    quiet = next((i + 1 for i, n in enumerate(run.tools_open) if not n and not run.turn_ends[i]), None)
    if quiet is not None:
        clocks = {"idle_watchdog_timeout": 0.4, "tool_watchdog_timeout": 0, "handshake_timeout": 0}
        hung = await bench.run(stop_after=quiet, options=clocks)
        _watchdog(bench, hung.result.failure, Watchdog.IDLE)


async def _hung_in_a_tool(bench: Bench, after: int) -> Run:
    """The run that hangs after the line that starts a tool, with an idle clock narrower than the tool clock.

    On a busy machine the fake CLI takes longer to start than a narrow clock allows, and is ended before its tool runs.
    Wider clocks tell that from a tool that is not counted: that one ends by the idle clock however wide it is.
    """
    idle = _NARROW
    while True:
        clocks = {"idle_watchdog_timeout": idle, "tool_watchdog_timeout": 3 * idle, "handshake_timeout": 0}
        hung = await bench.run(stop_after=after, options=clocks)
        ended_by = hung.result.failure.watchdog if hung.result.failure else None
        if ended_by is not Watchdog.IDLE or idle >= _WIDE:
            return hung
        idle *= 3


async def cancel_half_way(bench: Bench) -> None:
    """Cancelled in the middle, twice: cancelled, nothing left, whatever the CLI ignores."""
    half = len(bench.recording.lines) // 2
    run, _ = bench.pure()
    if half and run.turn_ends[half - 1 : half] == [True]:
        return
    for stubborn in (False, True):
        cancelled = await bench.run(stop_after=half, stubborn=stubborn, cancel_after=0.3)
        bench.expect(cancelled.result.status is RunStatus.CANCELLED, f"status {cancelled.result.status}")


async def whoever_listens(bench: Bench) -> None:
    """Nobody reads the messages, or somebody stops after one: the run ends the same."""
    whole = await bench.run()
    same_end(bench, (await bench.run(read="none")).result, whole.result, "unread")
    same_end(bench, (await bench.run(read="one")).result, whole.result, "reader left")


async def mutated_lines(bench: Bench) -> None:
    """Bytes flipped, cut, doubled, swapped: `receive` never raises."""
    dice = random.Random(20261130)
    lines = bench.recording.lines or (b"{}",)
    for _ in range(_FUZZ):
        damaged = [_damage(line, dice) for line in lines]
        bench.pure([line + b"\n" for line in damaged])
    bench.pure([b"[" * 100_000 + b"\n", b'{"type":' * 20_000 + b"\n", b"\x00" * 1000 + b"\n"])


def _damage(line: bytes, dice: random.Random) -> bytes:
    data = bytearray(line)
    kind = dice.randrange(6)
    if kind == 0 and data:
        for _ in range(dice.randrange(1, 8)):
            data[dice.randrange(len(data))] = dice.randrange(256)
    elif kind == 1:
        del data[dice.randrange(len(data) + 1) :]
    elif kind == 2:
        at = dice.randrange(len(data) + 1)
        data[at:at] = bytes(data[at : at + dice.randrange(64)])
    elif kind == 3:
        wild = dice.choice([b"null", b"[]", b"0", b'"x"', b"{}", b"1e999", b"true"])
        for value in (b'"message":{', b'"params":{', b'"content":['):
            if value in data:
                at = data.index(value) + len(value) - 1
                return bytes(data[:at]) + wild + b"}" * dice.randrange(3)
    elif kind == 4:
        return bytes(data.replace(b'"type":"', b'"type":"x', 1))
    return bytes(data).replace(b"\n", b" ")


def _watchdog(bench: Bench, failure: object, wanted: Watchdog) -> None:
    got = getattr(failure, "watchdog", None)
    bench.expect(got is wanted, f"ended by {got}, expected the {wanted.value} clock")


CASES: tuple[Case, ...] = (
    plays_whole,
    command_line_is_safe,
    cut_at_every_byte,
    one_byte_writes,
    line_ends,
    noise_between_lines,
    dies_after_each_line,
    silent_exit,
    stdin_closed_early,
    huge_line,
    leaves_processes,
    never_exits,
    hung_and_deaf,
    handshake_or_first_word,
    idle_and_tool_clocks,
    cancel_half_way,
    whoever_listens,
    mutated_lines,
)
