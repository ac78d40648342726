"""`python -m tests.fuzz.run DIALECT [seconds]`: coverage-guided fuzzing of one adapter with atheris.

Ends with a status other than 0 when something broke; the input is then in `.cache/fuzz/DIALECT/`.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["callboard_adapters"]):
    from tests.fuzz.mutate import mutate
    from tests.fuzz.target import DIALECTS, Target, seeds

_MEMORY_MB = 1024  # of the whole process, instrumentation included
_HANGS_S = 10  # one input
_LONGEST = 20_000  # bytes of one input


def main(argv: list[str]) -> None:
    provider, seconds = argv[0], int(argv[1]) if len(argv) > 1 else 60
    if provider not in DIALECTS:
        raise SystemExit(f"unknown dialect {provider}; known: {', '.join(DIALECTS)}")
    with atheris.instrument_imports(include=["callboard_adapters"]):
        target = Target(provider)  # adapters are imported when they are asked for
    found = Path(".cache/fuzz", provider)
    found.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as corpus:
        for number, seed in enumerate(seeds(provider)):
            Path(corpus, f"seed-{number}").write_bytes(seed)
        flags = [
            *(f"-max_total_time={seconds}", f"-timeout={_HANGS_S}", f"-rss_limit_mb={_MEMORY_MB}"),
            *(f"-max_len={_LONGEST}", f"-artifact_prefix={found}/", "-verbosity=1", "-print_final_stats=1"),
        ]
        atheris.Setup([sys.argv[0], *flags, corpus], target.play, custom_mutator=_mutator)
        atheris.Fuzz()


def _mutator(data: bytes, longest: int, seed: int) -> bytes:
    """Most of the time JSON stays JSON; sometimes libFuzzer's own bytes."""
    if seed % 4 == 0:
        return bytes(atheris.Mutate(data, longest))
    return mutate(data, seed, longest)


if __name__ == "__main__":
    main(sys.argv[1:])
