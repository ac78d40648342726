"""What the store raises; everything of PynamoDB's and botocore's is mapped here and nowhere else.

StoreError
├── ConditionFailed     a condition did not hold: somebody else moved first. `failed` says which part
├── Contended           transaction conflicts and throttling outlasted the retries: try again later
└── StoreUnavailable    no answer, or one we cannot read: the caller answers 503
    └── RequestRefused  the request itself was wrong: our bug, unless part of it was somebody's input (a cursor)
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from botocore.exceptions import BotoCoreError, ClientError
from pynamodb.exceptions import PynamoDBException, TransactWriteError

CONFLICTS: Final = frozenset({"TransactionConflict", "TransactionInProgressException", "TransactionConflictException"})
THROTTLES: Final = frozenset(
    {
        "ProvisionedThroughputExceededException",
        "ProvisionedThroughputExceeded",
        "ThrottlingException",
        "ThrottlingError",
        "RequestLimitExceeded",
        "LimitExceededException",
    }
)
INVALID: Final = "ValidationException"
CONDITION: Final = frozenset({"ConditionalCheckFailedException", "ConditionalCheckFailed"})


class StoreError(Exception):
    """Root of the tree."""


class ConditionFailed(StoreError):
    """`failed`: positions of the parts of a transaction whose condition did not hold; {0} for a single write."""

    def __init__(self, failed: frozenset[int]) -> None:
        super().__init__(f"condition failed in part {sorted(failed)}")
        self.failed = failed


class Contended(StoreError):
    """Others were faster too often, or the table is throttled."""


class StoreUnavailable(StoreError):
    """The table did not answer, or refused for a reason that is our bug; the cause is chained."""


class RequestRefused(StoreUnavailable):
    """The table says that what it was asked makes no sense."""


@contextmanager
def mapped() -> Iterator[None]:
    """Run store calls; raise only this module's errors."""
    try:
        yield
    except TransactWriteError as e:
        raise _of_transaction(e) from e
    except PynamoDBException as e:
        raise _of_code(_code(e), e) from e
    except ClientError as e:
        raise _of_code(e.response.get("Error", {}).get("Code"), e) from e
    except BotoCoreError as e:
        raise StoreUnavailable(str(e)) from e


def _of_transaction(error: TransactWriteError) -> StoreError:
    reasons = error.cancellation_reasons
    failed = frozenset(i for i, r in enumerate(reasons) if r is not None and r.code in CONDITION)
    if failed:
        return ConditionFailed(failed)
    codes = {r.code for r in reasons if r is not None} | {_code(error) or ""}
    if codes & (CONFLICTS | THROTTLES):
        return Contended(", ".join(sorted(c for c in codes if c)))
    return StoreUnavailable(str(error))


def _code(error: PynamoDBException) -> str | None:
    """The code DynamoDB answered with. Not PynamoDB's own `cause_response_code`: a call without an answer (a timeout, a
    cut connection) has `response` None in botocore, and that raises AttributeError on it, which became a 500."""
    response = getattr(error.cause, "response", None) or {}
    code: str | None = response.get("Error", {}).get("Code")
    return code


def _of_code(code: str | None, error: Exception) -> StoreError:
    if code in CONDITION:
        return ConditionFailed(frozenset({0}))
    if code in CONFLICTS or code in THROTTLES:
        return Contended(str(code))
    return RequestRefused(str(error)) if code == INVALID else StoreUnavailable(str(error))
