"""The records that the gateway sends: countries and errors."""

import re
from collections.abc import Iterator
from typing import Annotated, Any, TypeVar

from pydantic import Field, ValidationError, ValidatorFunctionWrapHandler, WrapValidator

from gateway_sdk.models._base import ReplyModel

T = TypeVar("T")

_TIMESTAMP = re.compile(r"[0-9T:.+Z -]{1,40}")


def _none_if_wrong(value: Any, check: ValidatorFunctionWrapHandler) -> Any:
    """Read a field of the wrong type as absent, so that a bad error record can still be read."""
    try:
        return check(value)
    except ValidationError:
        return None


Lenient = Annotated[T | None, WrapValidator(_none_if_wrong)]


class Country(ReplyModel):
    """A country of the world with its codes."""

    # Interface: Country record
    id: int
    country_name: str
    nationality: str
    three_digit_iso_code: str = Field(
        validation_alias="three_digit_iso_code", serialization_alias="three_digit_iso_code"
    )
    two_digit_iso_code: str = Field(
        validation_alias="two_digit_iso_code", serialization_alias="two_digit_iso_code"
    )
    currency: str
    phone_code: str = Field(validation_alias="phone_code", serialization_alias="phone_code")


class ErrorPayload(ReplyModel):
    """The gateway's description of an error; every field may be missing.

    The reason, path and message are texts of the gateway. They may hold personal data, so the
    repr does not show them.
    """

    # Interface: Error payload (ErrorPayload)
    reason: Lenient[str] = None
    path: Lenient[str] = None
    method: Lenient[str] = None
    message: Lenient[str] = None
    timestamp: Lenient[str] = None
    status: Lenient[int] = None

    def without_text(self) -> "ErrorPayload":
        """Return a copy without any text of the gateway."""
        kept = {"status": self.status, "timestamp": self.timestamp}
        if self.timestamp is None or not _TIMESTAMP.fullmatch(self.timestamp):
            del kept["timestamp"]
        return ErrorPayload.model_validate(kept)

    def __repr_args__(self) -> Iterator[tuple[str, object]]:
        yield "status", self.status
