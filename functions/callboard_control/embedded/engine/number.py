"""DynamoDB numbers: up to 38 significant digits, magnitude 1e-130 to 9.99…e125, kept as canonical decimal text.

Canonical text is plain notation without a plus sign, leading zeros or trailing fraction zeros, so that two equal
numbers are equal strings. `sort_key` maps a number to bytes that sort as the numbers do, for an SQLite index.
"""

from __future__ import annotations

import re
from decimal import Context, Decimal

from callboard_control.embedded.engine.errors import validation

MAX_DIGITS = 38
MAX_MAGNITUDE = 125
MIN_MAGNITUDE = -130
_BIAS = 130  # puts every magnitude into one byte
_EXPONENT_CHARACTERS = 19  # a signed 64-bit exponent is read and found out of range, a longer one is no number
_NUMBER = re.compile(r"([+-]?)(\d*)\.?(\d*)(?:[eE]([+-]?\d+))?", re.ASCII)
# Wide enough for any exact sum or difference of two valid numbers (about 257 digits).
_EXACT = Context(prec=300, Emin=-999_999, Emax=999_999)

OVERFLOW = "Number overflow. Attempting to store a number with magnitude larger than supported range"
UNDERFLOW = "Number underflow. Attempting to store a number with magnitude smaller than supported range"
TOO_PRECISE = "Attempting to store more than 38 significant digits in a Number"


def normalise(text: str) -> str:
    """Return the canonical text of `text`; raises ValidationException if it is no number DynamoDB can hold."""
    if text.isdigit() and text.isascii() and len(text) < MAX_DIGITS and (text[0] != "0" or text == "0"):
        return text
    match = _NUMBER.fullmatch(text)
    if match is None or not (match[2] or match[3]) or len(match[4] or "") > _EXPONENT_CHARACTERS:
        raise validation(f"The parameter cannot be converted to a numeric value: {text}")
    written = int(match[4] or 0)
    digits = (match[2] + match[3]).lstrip("0")
    if not digits:
        _check_range(0, written)  # seen on AWS: 0e126 is out of range
        return "0"
    exponent = written - len(match[3])
    significant = digits.rstrip("0")
    exponent += len(digits) - len(significant)
    _check_range(len(significant), len(significant) + exponent - 1)
    return ("-" if match[1] == "-" else "") + _plain(significant, exponent)


def _check_range(digits: int, magnitude: int) -> None:
    if magnitude > MAX_MAGNITUDE:
        raise validation(OVERFLOW)
    if magnitude < MIN_MAGNITUDE:
        raise validation(UNDERFLOW)
    if digits > MAX_DIGITS:
        raise validation(TOO_PRECISE)


def _plain(digits: str, exponent: int) -> str:
    if exponent >= 0:
        return digits + "0" * exponent
    if -exponent < len(digits):
        return f"{digits[:exponent]}.{digits[exponent:]}"
    return "0." + "0" * (-exponent - len(digits)) + digits


def _parts(text: str) -> tuple[bool, str, int]:
    """Sign, significant digits and magnitude (the power of ten of the first digit) of a canonical non-zero number."""
    negative = text[0] == "-"
    whole, _, fraction = text.lstrip("-").partition(".")
    digits = whole + fraction
    stripped = digits.lstrip("0")
    magnitude = len(whole) - 1 - (len(digits) - len(stripped))
    return negative, stripped.rstrip("0"), magnitude


def sort_key(text: str) -> bytes:
    """Bytes that order like the numbers: sign, biased magnitude, digits (complemented for negative numbers)."""
    if text == "0":
        return b"\x01"
    negative, digits, magnitude = _parts(text)
    if not negative:
        return bytes((2, magnitude + _BIAS)) + digits.encode()
    complement = bytes(ord("0") + ord("9") - ord(digit) for digit in digits)
    return bytes((0, 255 - (magnitude + _BIAS))) + complement + b"\xff"


def size(text: str) -> int:
    """Stored size in bytes: one, plus one for each two significant digits, plus one for a minus sign.

    Digits before and after the point are paired apart: measured on AWS by others, the guide's rule is coarser.
    """
    if text == "0":
        return 1
    whole, point, fraction = text.lstrip("-").partition(".")
    if point:
        whole, fraction = whole.lstrip("0"), fraction if whole != "0" else fraction.lstrip("0")
    else:
        whole = whole.rstrip("0")
    return 1 + (len(whole) + 1) // 2 + (len(fraction) + 1) // 2 + (text[0] == "-")


def less(left: str, right: str) -> bool:
    """Whether `left` < `right`, both canonical."""
    return Decimal(left) < Decimal(right)


def add(left: str, right: str) -> str:
    """The exact sum, canonical. DynamoDB calls a result that needs more than 38 digits an overflow too."""
    return _exact_result(_EXACT.add(Decimal(left), Decimal(right)))


def subtract(left: str, right: str) -> str:
    """The exact difference, canonical."""
    return _exact_result(_EXACT.subtract(Decimal(left), Decimal(right)))


def _exact_result(value: Decimal) -> str:
    if len(value.normalize(_EXACT).as_tuple().digits) > MAX_DIGITS:
        raise validation(OVERFLOW)
    return normalise(format(value, "f"))
