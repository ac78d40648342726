"""`python -m tests.simulation [--seeds 0-99] [--steps 600]`: run seeds, say what they did, stop at a failure."""

from __future__ import annotations

import argparse
import sys
import time

from tests.simulation.actors import Violation
from tests.simulation.sim import Simulation, simplest


def main() -> int:
    parser = argparse.ArgumentParser(prog="simulate")
    parser.add_argument("--seeds", default="0-49", help="one seed or a range, such as 0-49")
    parser.add_argument("--steps", type=int, default=600)
    options = parser.parse_args()
    first, _, last = options.seeds.partition("-")
    began, steps, operations, ended = time.monotonic(), 0, 0, 0
    for seed in range(int(first), int(last or first) + 1):
        simulation = Simulation(seed, options.steps)
        try:
            simulation.run()
        except Violation:
            print(simplest(seed, options.steps))
            print(f"again: make simulate SEEDS={seed} STEPS={options.steps}")
            return 1
        steps, operations = steps + simulation.step, operations + simulation.operations
        ended += len(simulation.people.accepted)
    seconds = time.monotonic() - began
    print(
        f"{steps} steps, {operations} store operations, {ended} tasks accepted and ended, {seconds:.0f} s, no violation"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
