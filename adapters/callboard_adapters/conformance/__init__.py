"""The conformance suite: what any adapter, ours or a stranger's, has to keep. Needs no test framework."""

from callboard_adapters.conformance.cases import CASES
from callboard_adapters.conformance.recording import Recording
from callboard_adapters.conformance.suite import Bench, Problem, Report, check

__all__ = ["CASES", "Bench", "Problem", "Recording", "Report", "check"]
