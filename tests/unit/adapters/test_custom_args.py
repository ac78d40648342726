from __future__ import annotations

import pytest

from callboard_adapters.capabilities import ArgMode, ArgStyle, Capabilities, PromptVia
from callboard_adapters.custom_args import filter_args, filter_prefix, unquote, user_args
from callboard_adapters.options import ExecOptions

BLOCKED = {
    "-p": ArgMode.STANDALONE,
    "-m": ArgMode.VALUE,
    "--mode": ArgMode.VALUE,
    "--json": ArgMode.STANDALONE,
    "--resume": ArgMode.OPTIONAL,
    "acp": ArgMode.STANDALONE,
}


def caps(**style: bool) -> Capabilities:
    return Capabilities(
        "x",
        "x",
        "x",
        PromptVia.STDIN_EOF,
        blocked_args=BLOCKED,
        value_args=frozenset({"--note"}),
        arg_style=ArgStyle(**style),
    )


@pytest.mark.parametrize(
    ("given", "kept", "dropped"),
    [
        ("--json --keep", "--keep", "--json"),
        ("--json=yes --keep", "--keep", "--json"),
        ("--mode text --keep", "--keep", "--mode"),
        ("--mode=text --keep", "--keep", "--mode"),
        ("--mode --keep --more", "--more", "--mode"),  # its value is whatever follows
        ("--resume id --keep", "--keep", "--resume"),
        ("--resume --keep", "--keep", "--resume"),
        ("acp -- --json x", "-- x", "acp --json"),
        ("--note -p --keep", "--note -p --keep", ""),  # a value that looks like a flag
        ("--note=-p", "--note=-p", ""),
        ("-mtext --keep", "--keep", "-m"),
        ("-m text --keep", "--keep", "-m"),
        ("-pq --keep", "-q --keep", "-p"),
        ("-pm text --keep", "--keep", "-p -m"),
        ("-qp", "-qp", ""),  # q may take the rest as its value
        ("--modeling x", "--modeling x", ""),
        ("--MODE x", "--MODE x", ""),
    ],
)
def test_every_spelling_of_a_blocked_flag_goes_with_its_value(given, kept, dropped):
    result = filter_args(given.split(), caps())
    assert (result.kept, result.dropped) == (kept.split(), dropped.split())


def test_abbreviations_are_dropped_where_the_parser_accepts_them():
    assert filter_args(["--mod", "text", "--keep"], caps(abbreviations=True)).kept == ["--keep"]
    assert filter_args(["--mod", "text"], caps(abbreviations=False)).kept == ["--mod", "text"]
    assert filter_args(["--note", "x"], caps(abbreviations=True)).kept == ["--note", "x"]


@pytest.mark.parametrize(
    ("token", "plain"),
    [("'a b'", "a b"), ('--f="v w"', "--f=v w"), ('k="v"', 'k="v"'), ("'", "'"), ("--f=", "--f="), ("'a\"", "'a\"")],
)
def test_one_layer_of_quotes_goes(token, plain):
    assert unquote(token) == plain


def test_quoting_does_not_smuggle_a_flag_past():
    assert filter_args(["'--json'", '--mode="x"'], caps()).kept == []


def test_the_words_of_a_launch_prefix_stay_and_its_flags_are_filtered():
    result = filter_prefix(["wrap", "start", "acp", "--json", "-", "--"], caps())
    assert (result.kept, result.dropped) == (["wrap", "start", "acp", "-", "--"], ["--json"])


def test_the_user_sees_a_warning_for_each_drop_and_never_a_value():
    kept, notices = user_args(caps(), ExecOptions(extra_args=["--json"], custom_args=["--mode", "s3cret", "ok"]))
    assert kept == ["ok"]
    assert [(n.type.value, n.level) for n in notices] == [("log", "warn"), ("log", "warn")]
    assert "the machine's" in notices[0].content
    assert "the agent's" in notices[1].content
    assert "s3cret" not in notices[1].content


def test_a_flag_at_the_end_without_its_value_is_no_error():
    assert filter_args(["--mode"], caps()).dropped == ["--mode"]
    assert filter_args(["--note"], caps()).kept == ["--note"]
