"""Condition expressions: what is true of an item, and what is refused without looking at it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tests.contract.dynamodb.backends import MAIN, Dynamo, differs, key, on_both, outcome
from tests.contract.dynamodb.values import n, s

ITEM: dict[str, Any] = {
    "num": {"N": "10"},
    "neg": {"N": "-3.5"},
    "str": {"S": "hello"},
    "uml": {"S": "é𝄞"},
    "blank": {"S": ""},
    "bin": {"B": b"hi there"},
    "yes": {"BOOL": True},
    "nil": {"NULL": True},
    "ss": {"SS": ["x", "y", "z"]},
    "ns": {"NS": ["1", "2", "10"]},
    "bs": {"BS": [b"a", b"b"]},
    "seq": {"L": [{"N": "1"}, {"S": "two"}, {"L": [{"N": "3"}]}, {"M": {"in": {"S": "deep"}}}]},
    "doc": {"M": {"a": {"N": "5"}, "b": {"M": {"c": {"S": "leaf"}}}, "l": {"L": [{"S": "first"}, {"S": "second"}]}}},
    "dot.ted": {"N": "7"},
    "num2": {"N": "10.0"},
    "big": {"N": "12345678901234567890123456789012345678"},
}
TRUE, FALSE, INVALID = "ok", "ConditionalCheckFailedException", "ValidationException"


@dataclass(frozen=True)
class Check:
    claim: str
    expression: str
    expected: str
    values: dict[str, Any] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)


COMPARISONS = [
    Check("equal numbers", "num = :v", TRUE, {":v": n(10)}),
    Check("numbers are equal by value", "num = :v", TRUE, {":v": n("1.0e1")}),
    Check("two attributes are compared by value", "num = num2", TRUE),
    Check("38 digits are compared exactly", "big = :v", FALSE, {":v": n("12345678901234567890123456789012345679")}),
    Check("equal strings", "str = :v", TRUE, {":v": s("hello")}),
    Check("equal binary", "bin = :v", TRUE, {":v": {"B": b"hi there"}}),
    Check("equal booleans", "yes = :v", TRUE, {":v": {"BOOL": True}}),
    Check("equal nulls", "nil = :v", TRUE, {":v": {"NULL": True}}),
    Check("sets are equal in any order", "ss = :v", TRUE, {":v": {"SS": ["z", "x", "y"]}}),
    Check("number sets are equal by value", "ns = :v", TRUE, {":v": {"NS": ["10.0", "2", "1"]}}),
    Check("a smaller set is not equal", "ss = :v", FALSE, {":v": {"SS": ["z", "x"]}}),
    Check("equal lists", "doc.l = :v", TRUE, {":v": {"L": [s("first"), s("second")]}}),
    Check("lists are equal in order only", "doc.l = :v", FALSE, {":v": {"L": [s("second"), s("first")]}}),
    Check("equal maps", "doc.b = :v", TRUE, {":v": {"M": {"c": s("leaf")}}}),
    Check("different types are not equal", "num = :v", FALSE, {":v": s("10")}),
    Check("true is not one", "yes = :v", FALSE, {":v": n(1)}),
    Check("different types are unequal", "num <> :v", TRUE, {":v": s("10")}),
    Check("unequal is false for equals", "num <> :v", FALSE, {":v": n(10)}),
    Check("a missing attribute is not equal", "gone = :v", FALSE, {":v": n(10)}),
    Check("a missing attribute is unequal", "gone <> :v", TRUE, {":v": n(10)}),
    Check("two missing attributes are not equal", "gone = lost", FALSE),
    Check("two missing attributes are unequal", "gone <> lost", TRUE),
    Check("less, by number not by text", "num < :v", TRUE, {":v": n(9 * 10)}),
    Check("less is strict", "num < :v", FALSE, {":v": n(10)}),
    Check("less or equal", "num <= :v", TRUE, {":v": n(10)}),
    Check("greater", "num > :v", TRUE, {":v": n("-11")}),
    Check("negative fractions are ordered", "neg > :v", TRUE, {":v": n("-3.51")}),
    Check("greater or equal", "num >= :v", TRUE, {":v": n(10)}),
    Check("strings are ordered by their bytes", "uml > :v", TRUE, {":v": s("z")}),
    Check("a prefix is less", "str > :v", TRUE, {":v": s("hell")}),
    Check("binary is ordered by bytes", "bin < :v", TRUE, {":v": {"B": b"hj"}}),
    Check("ordering across types is false", "num < :v", FALSE, {":v": s("99")}),
    Check("ordering across types is false the other way", "num > :v", FALSE, {":v": s("")}),
    Check("ordering a missing attribute is false", "gone < :v", FALSE, {":v": n(1)}),
    Check("not ordering a missing attribute is true", "NOT gone < :v", TRUE, {":v": n(1)}),
    Check("ordering a list attribute is false", "seq < doc", FALSE),
    Check("ordering by a list value is refused", "num < :v", INVALID, {":v": {"L": []}}),
    Check("ordering by a boolean value is refused", "yes < :v", INVALID, {":v": {"BOOL": True}}),
    Check("comparing an attribute with itself is refused", "num = num", INVALID),
    Check("the value may stand first", ":v > num", TRUE, {":v": n(11)}),
    Check("two values may be compared", ":v > :w", TRUE, {":v": n(11), ":w": n(2)}),
    Check("between includes both ends", "num BETWEEN :a AND :b", TRUE, {":a": n(10), ":b": n(10)}),
    Check("between, outside", "num BETWEEN :a AND :b", FALSE, {":a": n(11), ":b": n(12)}),
    Check("between takes attributes", "num BETWEEN neg AND num2", TRUE),
    Check("between over mixed types is false", "num BETWEEN neg AND :b", FALSE, {":b": s("x")}),
    Check(
        "between with bounds the wrong way round is refused", "num BETWEEN :a AND :b", INVALID, {":a": n(2), ":b": n(1)}
    ),
    Check("between with bounds of two types is refused", "num BETWEEN :a AND :b", INVALID, {":a": n(1), ":b": s("2")}),
    Check("between a list is refused", "num BETWEEN :a AND :b", INVALID, {":a": {"L": []}, ":b": {"L": []}}),
    Check("in", "str IN (:a, :b)", TRUE, {":a": n(1), ":b": s("hello")}),
    Check("in, not", "str IN (:a, :b)", FALSE, {":a": n(1), ":b": s("hell")}),
    Check("in takes attributes", "num IN (neg, num2)", TRUE),
    Check("in, of a missing attribute", "gone IN (:a, lost)", FALSE, {":a": n(1)}),
    Check(
        "in takes 99 values",
        f"num IN ({','.join(f':v{i}' for i in range(99))})",
        TRUE,
        {f":v{i}": n(i) for i in range(99)},
    ),
    Check(
        "in refuses 101 values",
        f"num IN ({','.join(f':v{i}' for i in range(101))})",
        INVALID,
        {f":v{i}": n(i) for i in range(101)},
    ),
    Check("in with nothing is refused", "num IN ()", INVALID),
]

FUNCTIONS = [
    Check("attribute_exists", "attribute_exists(str)", TRUE),
    Check("attribute_exists of an empty string", "attribute_exists(blank)", TRUE),
    Check("attribute_exists of a null", "attribute_exists(nil)", TRUE),
    Check("attribute_exists, not", "attribute_exists(gone)", FALSE),
    Check("attribute_not_exists", "attribute_not_exists(gone)", TRUE),
    Check("attribute_not_exists, not", "attribute_not_exists(str)", FALSE),
    Check("attribute_exists of a nested path", "attribute_exists(doc.b.c)", TRUE),
    Check("attribute_exists of a list element", "attribute_exists(seq[2][0])", TRUE),
    Check("attribute_exists beyond a list", "attribute_exists(seq[4])", FALSE),
    Check("attribute_exists through a scalar", "attribute_exists(num.a)", FALSE),
    Check("attribute_exists of an index into a map", "attribute_exists(doc[0])", FALSE),
    Check("attribute_exists needs a path", "attribute_exists(:v)", INVALID, {":v": n(1)}),
    Check("attribute_exists takes one operand", "attribute_exists(num, str)", INVALID),
    *(
        Check(f"attribute_type {name} of {attribute}", f"attribute_type({attribute}, :t)", TRUE, {":t": s(name)})
        for attribute, name in {
            "num": "N",
            "str": "S",
            "bin": "B",
            "yes": "BOOL",
            "nil": "NULL",
            "ss": "SS",
            "ns": "NS",
            "bs": "BS",
            "seq": "L",
            "doc": "M",
        }.items()
    ),
    Check("attribute_type, another", "attribute_type(num, :t)", FALSE, {":t": s("S")}),
    Check("attribute_type of a missing attribute", "attribute_type(gone, :t)", FALSE, {":t": s("S")}),
    Check("attribute_type of an unknown type is refused", "attribute_type(num, :t)", INVALID, {":t": s("X")}),
    Check("attribute_type by an attribute is refused", "attribute_type(num, str)", INVALID),
    Check("begins_with", "begins_with(str, :v)", TRUE, {":v": s("he")}),
    Check("begins_with the whole", "begins_with(str, :v)", TRUE, {":v": s("hello")}),
    Check("begins_with, not", "begins_with(str, :v)", FALSE, {":v": s("lo")}),
    Check("begins_with binary", "begins_with(bin, :v)", TRUE, {":v": {"B": b"hi"}}),
    Check("begins_with of a number attribute is false", "begins_with(num, :v)", FALSE, {":v": s("1")}),
    Check("begins_with of a missing attribute is false", "begins_with(gone, :v)", FALSE, {":v": s("1")}),
    Check("begins_with a number is refused", "begins_with(str, :v)", INVALID, {":v": n(1)}),
    Check("contains a substring", "contains(str, :v)", TRUE, {":v": s("ell")}),
    Check("contains, not", "contains(str, :v)", FALSE, {":v": s("elo")}),
    Check("contains bytes", "contains(bin, :v)", TRUE, {":v": {"B": b"the"}}),
    Check("contains a member of a string set", "contains(ss, :v)", TRUE, {":v": s("y")}),
    Check("contains a member of a number set by value", "contains(ns, :v)", TRUE, {":v": n("10.00")}),
    Check("contains no member of another type", "contains(ns, :v)", FALSE, {":v": s("10")}),
    Check("contains a part of a member: no", "contains(ss, :v)", FALSE, {":v": s("")}),
    Check("contains an element of a list", "contains(seq, :v)", TRUE, {":v": s("two")}),
    Check("contains a list in a list", "contains(seq, :v)", TRUE, {":v": {"L": [n(3)]}}),
    Check("contains of a map is false", "contains(doc, :v)", FALSE, {":v": s("a")}),
    Check("contains an attribute in itself is refused", "contains(str, str)", INVALID),
    Check("size of a string", "size(str) = :v", TRUE, {":v": n(5)}),
    Check("size of a string is in UTF-16 code units", "size(uml) = :v", TRUE, {":v": n(3)}),
    Check("size of binary", "size(bin) = :v", TRUE, {":v": n(8)}),
    Check("size of a set", "size(ss) = :v", TRUE, {":v": n(3)}),
    Check("size of a list", "size(seq) = :v", TRUE, {":v": n(4)}),
    Check("size of a map", "size(doc) = :v", TRUE, {":v": n(3)}),
    Check("size of an empty string", "size(blank) < :v", TRUE, {":v": n(1)}),
    Check("size of a missing attribute is false", "size(gone) < :v", FALSE, {":v": n(9)}),
    Check("size of a number attribute is false", "size(num) < :v", FALSE, {":v": n(9)}),
    Check("size of a number value is refused", "size(:v) < num", INVALID, {":v": n(9)}),
    Check("size is compared with an attribute", "size(seq) < num", TRUE),
    Check("size between", "size(str) BETWEEN :a AND :b", TRUE, {":a": n(5), ":b": n(6)}),
    Check("size in", "size(str) IN (:a)", TRUE, {":a": n(5)}),
    Check("size alone is no condition", "size(str)", INVALID),
    Check("size of a size is refused", "size(size(str)) = :v", INVALID, {":v": n(1)}),
    Check("function names are case-sensitive", "SIZE(str) = :v", INVALID, {":v": n(5)}),
    Check("an unknown function is refused", "upper(str) = :v", INVALID, {":v": n(5)}),
    Check("a truth value is no operand", "contains(str, :v) = :v", INVALID, {":v": s("x")}),
    Check("an update function is refused", "if_not_exists(str, :v) = :v", INVALID, {":v": s("x")}),
]

V = {":t": n(10), ":f": n(11)}
LOGIC = [
    Check("and", "num = :t AND str <> :f", TRUE, V),
    Check("and, one false", "num = :t AND num = :f", FALSE, V),
    Check("or", "num = :f OR num = :t", TRUE, V),
    Check("not", "NOT num = :f", TRUE, {":f": n(11)}),
    Check("not binds tighter than and", "NOT num = :f AND num = :t", TRUE, V),
    Check("not binds tighter than or", "NOT num = :t OR num = :t", TRUE, {":t": n(10)}),
    Check("and binds tighter than or", "num = :t OR num = :f AND num = :f", TRUE, V),
    Check("and binds tighter than or, from the left", "num = :f AND num = :f OR num = :t", TRUE, V),
    Check("parentheses change that", "(num = :t OR num = :f) AND num = :f", FALSE, V),
    Check("not of parentheses", "NOT (num = :t AND num = :f)", TRUE, V),
    Check("between's and is not the conjunction", "num BETWEEN :t AND :f AND num = :t", TRUE, V),
    Check("keywords are case-insensitive", "not num = :f aNd num between :t and :f", TRUE, V),
    Check("operands may stand in parentheses", "(num) = (:t)", TRUE, {":t": n(10)}),
    Check("redundant parentheses are refused", "((num = :t))", INVALID, {":t": n(10)}),
    Check("white space is free", "\n num\t=\r:t ", TRUE, {":t": n(10)}),
    Check("no white space is needed", "num=:t AND(num<:f)", TRUE, V),
]

NAMES = [
    Check("a name reference", "#a = :t", TRUE, {":t": n(10)}, {"#a": "num"}),
    Check("a dot in a referenced name is no path", "#a = :t", TRUE, {":t": n(7)}, {"#a": "dot.ted"}),
    Check("references inside a path", "#a.#b.#c = :t", TRUE, {":t": s("leaf")}, {"#a": "doc", "#b": "b", "#c": "c"}),
    Check("a reserved word bare is refused", "name = :t", INVALID, {":t": n(10)}),
    Check("a reserved word in a path is refused", "doc.status = :t", INVALID, {":t": n(10)}),
    Check("reserved words are case-insensitive", "sTaTus = :t", INVALID, {":t": n(10)}),
    Check("a reserved word by reference", "attribute_not_exists(#a)", TRUE, {}, {"#a": "status"}),
    Check("an undefined name is refused", "#b = :t", INVALID, {":t": n(10)}, {"#a": "num"}),
    Check("an undefined value is refused", "num = :u", INVALID, {":t": n(10)}),
    Check("an unused name is refused", "num = :t", INVALID, {":t": n(10)}, {"#a": "num"}),
    Check("an unused value is refused", "num = :t", INVALID, {":t": n(10), ":u": n(1)}),
    Check("a name reference without # is refused", "num = :t", INVALID, {":t": n(10)}, {"a": "num"}),
    Check("a value reference without : is refused", "num = :t", INVALID, {":t": n(10), "u": n(1)}),
    Check("references may begin with a digit", "#1 = :2", TRUE, {":2": n(10)}, {"#1": "num"}),
    Check("a bare name may not begin with a digit", "1num = :t", INVALID, {":t": n(10)}),
    Check("a bare name may not begin with an underscore", "_num = :t", INVALID, {":t": n(10)}),
    Check("a bare name may hold digits and underscores", "attribute_not_exists(a_1_b)", TRUE),
    Check("a hyphen ends a name", "attribute_not_exists(a-b)", INVALID),
    Check("a negative index is refused", "attribute_exists(seq[-1])", INVALID),
    Check("an index by reference is refused", "attribute_exists(seq[:t])", INVALID, {":t": n(0)}),
]

SYNTAX = [
    Check("an empty condition is refused", "", INVALID),
    Check("a blank condition is refused", "  ", INVALID),
    Check("two equal signs are refused", "num = = :t", INVALID, {":t": n(10)}),
    Check("a missing operand is refused", "num =", INVALID),
    Check("a bare attribute is no condition", "yes", INVALID),
    Check("an open parenthesis is refused", "(num = :t", INVALID, {":t": n(10)}),
    Check("a closing parenthesis too much is refused", "num = :t)", INVALID, {":t": n(10)}),
    Check("a dangling and is refused", "num = :t AND", INVALID, {":t": n(10)}),
    Check("a leading or is refused", "OR num = :t", INVALID, {":t": n(10)}),
    Check("a quote is refused", 'num = "10"', INVALID),
    Check("a number is no operand", "num = 10", INVALID),
    Check("!= is refused", "num != :t", INVALID, {":t": n(10)}),
    Check("a semicolon is refused", "num = :t;", INVALID, {":t": n(10)}),
    Check("a chain of comparisons is refused", "neg < num < :t", INVALID, {":t": n(10)}),
    Check("arithmetic is refused", "num + :t = :t", INVALID, {":t": n(10)}),
    Check("4096 bytes are accepted", "num = :t" + " " * (4096 - 8), TRUE, {":t": n(10)}),
    Check("4097 bytes are refused", "num = :t" + " " * (4097 - 8), INVALID, {":t": n(10)}),
    Check("300 operators are accepted", " OR ".join(["num=:t"] * 150), TRUE, {":t": n(10)}),
    Check("149 nested parentheses are accepted", "num=:t " + "OR (num=:t " * 149 + ")" * 149, TRUE, {":t": n(10)}),
    Check("any number of NOTs", "NOT NOT NOT NOT num = :t", TRUE, {":t": n(10)}),
    Check("a reference of 255 characters", f"num = :{'v' * 254}", TRUE, {f":{'v' * 254}": n(10)}),
    Check("a reference of 256 characters is refused", f"num = :{'v' * 255}", INVALID, {f":{'v' * 255}": n(10)}),
    Check("301 operators are refused", "NOT " * 2 + " OR ".join(["num=:t"] * 150), INVALID, {":t": n(10)}),
]

CHECKS = [*COMPARISONS, *FUNCTIONS, *LOGIC, *NAMES, *SYNTAX]
MINISTACK_DIFFERS = {
    **differs(
        "takes two missing attributes for equal",
        "two missing attributes are not equal",
        "two missing attributes are unequal",
        "in, of a missing attribute",
    ),
    **differs(
        "only finds it false",
        "ordering by a list value is refused",
        "ordering by a boolean value is refused",
        "between with bounds of two types is refused",
        "between a list is refused",
        "attribute_type of an unknown type is refused",
        "attribute_type by an attribute is refused",
        "a bare name may not begin with an underscore",
        "a quote is refused",
    ),
    **differs(
        "accepts it",
        "comparing an attribute with itself is refused",
        "in refuses 101 values",
        "function names are case-sensitive",
        "a value reference without : is refused",
        "!= is refused",
        "a semicolon is refused",
        "arithmetic is refused",
        "a reference of 256 characters is refused",
        "301 operators are refused",
    ),
    **differs(
        "refuses what DynamoDB only finds false",
        "begins_with of a number attribute is false",
    ),
    **differs(
        "compares binary and numbers as their text",
        "contains bytes",
        "contains a member of a number set by value",
    ),
    **differs(
        "gives a number a size",
        "size of a number attribute is false",
    ),
    **differs(
        "does not know parentheses around an operand",
        "operands may stand in parentheses",
    ),
}


@on_both(CHECKS, MINISTACK_DIFFERS)
def test_condition(dynamo: Dynamo, check: Check) -> None:
    pk = dynamo.fresh()
    dynamo.put({**key(pk), **ITEM})
    request: dict[str, Any] = {"TableName": MAIN, "Key": key(pk), "ConditionExpression": check.expression}
    if check.values:
        request["ExpressionAttributeValues"] = check.values
    if check.names:
        request["ExpressionAttributeNames"] = check.names
    assert outcome(lambda: dynamo.client.delete_item(**request)) == check.expected
    assert (dynamo.get(key(pk)) is None) == (check.expected == TRUE), (
        "the item is deleted if and only if the condition held"
    )
