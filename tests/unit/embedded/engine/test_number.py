"""Numbers: canonical text, order of the sort keys, exact sums. Checked against Python's Decimal."""

from __future__ import annotations

from decimal import Context, Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from callboard_control.embedded.engine import EngineError
from callboard_control.embedded.engine import number as numbers

EXACT = Context(prec=400)
repeatable = settings(deadline=None, derandomize=True, database=None)


@st.composite
def texts(draw: st.DrawFn) -> str:
    """Any number DynamoDB can hold, in any spelling."""
    digits = draw(st.text("0123456789", min_size=1, max_size=38)).lstrip("0") or "0"
    magnitude = draw(st.one_of(st.integers(-130, 125), st.integers(-3, 40)))
    exponent = magnitude - (len(digits) - 1)
    sign = draw(st.sampled_from(["", "-", "+"]))
    zeros = draw(st.sampled_from(["", "0", "000"]))
    if exponent <= 0 and -exponent < len(digits) and draw(st.booleans()):
        point = len(digits) + exponent
        return f"{sign}{zeros}{digits[:point]}.{digits[point:]}{zeros}"
    mark = draw(st.sampled_from(["e", "E"]))
    return f"{sign}{zeros}{digits}{mark}{exponent}"


@repeatable
@given(texts())
def test_canonical_text_has_the_same_value_and_is_canonical(text: str) -> None:
    canonical = numbers.normalise(text)
    assert Decimal(canonical) == Decimal(text)
    assert numbers.normalise(canonical) == canonical
    assert "e" not in canonical.lower()


@repeatable
@given(texts(), texts())
def test_equal_numbers_have_one_canonical_text(left: str, right: str) -> None:
    assert (numbers.normalise(left) == numbers.normalise(right)) == (Decimal(left) == Decimal(right))


@repeatable
@given(texts(), texts())
def test_sort_keys_order_as_the_numbers_do(left: str, right: str) -> None:
    first, second = numbers.sort_key(numbers.normalise(left)), numbers.sort_key(numbers.normalise(right))
    assert (first < second) == (Decimal(left) < Decimal(right))
    assert (first == second) == (Decimal(left) == Decimal(right))


@repeatable
@given(texts(), texts())
def test_sums_and_differences_are_exact_or_refused(left: str, right: str) -> None:
    pairs = ((numbers.add, EXACT.add), (numbers.subtract, EXACT.subtract))
    for ours, theirs in pairs:
        exact = theirs(Decimal(left), Decimal(right))
        digits = len(exact.normalize(EXACT).as_tuple().digits)
        fits = digits <= 38 and (exact == 0 or -130 <= exact.adjusted() <= 125)
        if fits:
            assert Decimal(ours(numbers.normalise(left), numbers.normalise(right))) == exact
        else:
            with pytest.raises(EngineError, match=r"Number (over|under)flow"):
                ours(numbers.normalise(left), numbers.normalise(right))


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("0", 1),
        ("1", 2),
        ("12", 2),
        ("123", 3),
        ("-1", 3),
        ("100", 2),
        ("0.001", 2),
        ("1.5", 3),
        ("1" * 38, 20),
        ("123456", 4),
        ("3.14159", 5),
        ("-3.14159", 6),
        ("100.5", 4),
        ("10.01", 3),
        ("1" + "0" * 125, 2),
    ],
)
def test_the_size_of_a_number_is_a_byte_for_two_digits_on_each_side_of_the_point_and_one_more(
    text: str, size: int
) -> None:
    assert numbers.size(text) == size


@repeatable
@given(st.text(max_size=60))
def test_any_text_is_a_number_or_a_validation_error(text: str) -> None:
    try:
        numbers.normalise(text)
    except EngineError as error:
        assert error.code == "ValidationException"  # noqa: PT017 - most texts are refused, some are numbers
