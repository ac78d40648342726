"""The head of a SKILL.md, as people and generators write it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from callboard_wire import front_matter
from callboard_wire.skill_files import SkillRefused


@pytest.mark.parametrize(
    ("text", "name", "description"),
    [
        ("---\nname: a\ndescription: b c\n---\nbody", "a", "b c"),
        ("---\r\nname: a\r\ndescription: 'b: c'\r\n---\r\nbody", "a", "b: c"),
        ("\ufeff---\nname: a\ndescription: b\n---", "a", "b"),
        ('---\ndescription: >\n  b\n  c\nname: "a"\n---\n', "a", "b c"),
        ("---\ndescription: |\n  b\n  c\nname: a # not this\n---\n", "a", "b\nc"),
        ("---\nmetadata:\n  name: inner\n  list: [name, x]\nname: a\ndescription: b\n---\n", "a", "b"),
        ("---\n? [name, x]\n: inner\nname: a\ndescription: b\n---\n", "a", "b"),
        ("---\n{name: a, description: b}\n---\n", "a", "b"),
        ("---\nname: &x a\ndescription: b\nalso: *x\n---\n", "a", "b"),
        ("---\nname: !!python/object/apply:os.system [x]\ndescription: b\n---\n", "", "b"),
        ("---\n---\n", "", ""),
        ("---\n# nothing\n---\n", "", ""),
    ],
)
def test_name_and_description_are_the_scalars_of_the_top_level(text: str, name: str, description: str) -> None:
    head = front_matter.read(text)
    assert head is not None
    assert (head.get("name"), head.get("description")) == (name, description)
    for value in head.values.values():
        assert value.value.split()[0] in text[value.start : value.end]


@pytest.mark.parametrize("text", ["", "body", "# --- title", "----\nname: a\n---\n", " ---\nname: a\n---\n", "---"])
def test_a_text_without_front_matter_has_none(text: str) -> None:
    assert front_matter.read(text) is None


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("---\nname: a\n", "missing"),
        ("---\nname: a: b\n---\n", "line 2"),
        ("---\nname: 'a\n---\n", "not YAML"),
        ("---\n- a\n---\n", "key: value"),
        ("---\njust text\n---\n", "key: value"),
        ("---\n*x\n---\n", "key: value"),
        ("---\nname: a\nname: b\n---\n", "twice"),
        ("---\na: \x01\n---\n", "not YAML"),
        ("---\na: " + "[" * 40 + "\n---\n", "deep"),
        ("---\na: " + "x" * 20_000 + "\n---\n", "longer"),
        ("---\n\tname: a\n---\n", "not YAML"),
    ],
)
def test_front_matter_that_no_cli_could_read_is_refused_with_the_place(text: str, why: str) -> None:
    with pytest.raises(SkillRefused, match=why) as refused:
        front_matter.read(text)
    assert refused.value.code == "invalid_front_matter"


def test_aliases_that_multiply_are_not_followed() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 60)]
    head = front_matter.read("---\n" + "\n".join([*lines, "name: a"]) + "\n---\n")
    assert head is not None
    assert head.get("name") == "a"


@given(st.text(alphabet="-:\n\r 'ab\"[]{}#&*!|>\t\ufeff", max_size=80))
def test_whatever_stands_there_is_read_or_refused(text: str) -> None:
    assert code_of(f"---\n{text}\n---\n") in ("", "invalid_front_matter")


def code_of(text: str) -> str:
    try:
        front_matter.read(text)
    except SkillRefused as refused:
        return refused.code
    return ""
