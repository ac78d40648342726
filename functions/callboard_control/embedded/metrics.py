"""What the gateway counts, and its Prometheus text. Routes are labels (a closed set); ids never are."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from threading import Lock

BUCKETS_S = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

Labels = tuple[tuple[str, str], ...]


class Metrics:
    """Thread-safe. Gauges are asked when the text is made, so that nothing has to keep them up to date."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._requests: dict[tuple[str, int], int] = defaultdict(int)
        self._seconds: dict[str, list[float]] = {}
        self._ticks: dict[str, int] = defaultdict(int)
        self._gauges: dict[str, tuple[str, Callable[[], Mapping[Labels, float]]]] = {}

    def request(self, route: str, status: int, seconds: float) -> None:
        with self._lock:
            self._requests[route, status] += 1
            # one slot a bucket, then the sum
            counts = self._seconds.setdefault(route, [0.0] * (len(BUCKETS_S) + 2))
            counts[next((place for place, limit in enumerate(BUCKETS_S) if seconds <= limit), len(BUCKETS_S))] += 1
            counts[-1] += seconds

    def tick(self, outcome: str) -> None:
        with self._lock:
            self._ticks[outcome] += 1

    def gauge(self, name: str, help_text: str, read: Callable[[], Mapping[Labels, float]]) -> None:
        """Show `read()` under ``callboard_<name>``: a value for each set of labels."""
        self._gauges[name] = (help_text, read)

    def text(self) -> str:
        with self._lock:
            requests = sorted(self._requests.items())
            seconds = sorted((route, list(counts)) for route, counts in self._seconds.items())
            ticks = sorted(self._ticks.items())
        lines = list(_head("http_requests_total", "counter", "Requests answered, by route and status."))
        lines += [
            _sample("http_requests_total", (("route", route), ("status", str(status))), count)
            for (route, status), count in requests
        ]
        lines += _head("http_request_seconds", "histogram", "Time to the answer; held polls include their wait.")
        for route, counts in seconds:
            lines += _histogram(route, counts)
        lines += _head("ticks_total", "counter", "Runs of the minute's sweep, by outcome.")
        lines += [_sample("ticks_total", (("outcome", outcome),), count) for outcome, count in ticks]
        for name, (help_text, read) in sorted(self._gauges.items()):
            lines += _head(name, "gauge", help_text)
            lines += [_sample(name, labels, value) for labels, value in sorted(read().items())]
        return "\n".join(lines) + "\n"


def _head(name: str, kind: str, help_text: str) -> Iterable[str]:
    yield f"# HELP callboard_{name} {help_text}"
    yield f"# TYPE callboard_{name} {kind}"


def _histogram(route: str, counts: list[float]) -> Iterable[str]:
    total = 0.0
    for limit, count in zip([*(f"{limit:g}" for limit in BUCKETS_S), "+Inf"], counts, strict=False):
        total += count
        yield _sample("http_request_seconds_bucket", (("route", route), ("le", limit)), total)
    yield _sample("http_request_seconds_sum", (("route", route),), counts[-1])
    yield _sample("http_request_seconds_count", (("route", route),), total)


def _sample(name: str, labels: Labels, value: float) -> str:
    inside = ",".join(f'{key}="{_escaped(text)}"' for key, text in labels)
    return f"callboard_{name}{{{inside}}} {value:g}" if inside else f"callboard_{name} {value:g}"


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
