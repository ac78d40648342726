from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from callboard_adapters.process.framing import LineFramer, LineTooLong


def framed(chunks: list[bytes], limit: int = 1 << 20, indented: bool = False) -> list[bytes]:
    framer = LineFramer(limit, indented=indented)
    lines = [line for chunk in chunks for line in framer.feed(chunk)]
    last = framer.close()
    return lines if last is None else [*lines, last]


@given(st.lists(st.binary(max_size=20)), st.lists(st.integers(0, 400), max_size=12))
def test_where_the_stream_is_cut_changes_no_line(parts, cuts):
    data = b"\n".join(parts)
    edges = sorted({0, len(data), *(c for c in cuts if c < len(data))})
    assert framed([data[a:b] for a, b in pairwise(edges)]) == framed([data])


@given(st.binary(max_size=200).filter(lambda data: not data.startswith(b"\xef\xbb\xbf")))
def test_lines_are_what_lf_separates_less_one_cr(data):
    expected = [p.removesuffix(b"\r") for p in data.split(b"\n")]
    if data.endswith(b"\n") or not data:
        expected.pop()
    assert framed([data]) == expected


@pytest.mark.parametrize("read", [1, 2, 4, 100])
def test_a_byte_order_mark_is_no_part_of_the_first_line_and_stays_in_others(read):
    mark = b"\xef\xbb\xbf"
    data = mark + b"{}\r\n" + mark + b"x\n"
    assert framed([data[at : at + read] for at in range(0, len(data), read)]) == [b"{}", mark + b"x"]
    assert framed([mark + b"{}"]) == [b"{}"]


def test_a_line_over_the_limit_is_refused_in_one_read_or_in_many():
    for chunks in ([b"x" * 11 + b"\n"], [b"x" * 6, b"x" * 5], [b"ok\n" + b"x" * 11]):
        with pytest.raises(LineTooLong) as caught:
            framed(chunks, limit=10)
        assert caught.value.limit == 10
        assert caught.value.size >= 11
    assert framed([b"x" * 10 + b"\n"], limit=10) == [b"x" * 10]


def test_a_long_line_in_small_reads_is_joined_once():
    """A quadratic framer copies 64 MB a thousand times here; the test's own time limit is the assertion."""
    framer = LineFramer(64 << 20)
    for _ in range(64 << 6):
        assert framer.feed(b"x" * (16 << 10)) == []
    (line,) = framer.feed(b"\n")
    assert len(line) == 64 << 20


@given(st.lists(st.sampled_from([b"{", b"  a", b" b\r", b"}", b"", b"[log]", b"\tc"])), st.lists(st.integers(0, 60)))
def test_indented_lines_come_with_the_one_above_and_none_is_lost_or_held_back(parts, cuts):
    data = b"\n".join([*parts, b""])
    edges = sorted({0, len(data), *(c for c in cuts if c < len(data))})
    pieces = framed([data[a:b] for a, b in pairwise(edges)], indented=True)
    expected = [p.removesuffix(b"\r") for p in parts]
    assert [line.removesuffix(b"\r") for piece in pieces for line in piece.split(b"\n")] == expected
    assert all(line.startswith(b" ") for piece in pieces for line in piece.split(b"\n")[1:])


def test_a_document_in_one_read_is_two_pieces():
    framer = LineFramer(indented=True)
    assert framer.feed(b'{\n  "a": [\n    1\n  ]\n}\n') == [b'{\n  "a": [\n    1\n  ]', b"}"]
    assert (framer.lines, framer.close()) == (5, None)
