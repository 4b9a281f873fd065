"""ErrorPayload: valid fields are read, and its repr shows no text of the gateway."""

from typing import Any

import pytest

from gateway_sdk.models import ErrorPayload
from tests.interface_table import MODELS, Field

FULL = {
    "reason": "canary-reason",
    "path": "/wallet/1.0.0/canary-path",
    "method": "POST",
    "message": "canary-message",
    "timestamp": "2026-11-21T00:00:00Z",
    "status": 500,
    "detail": "canary-extra",
}


@pytest.mark.parametrize("field", MODELS["ErrorPayload"], ids=lambda field: field.wire_name)
@pytest.mark.parametrize("wrong", [None, [], {}, 1.5, True, b"x", [[]]])
def test_field_of_a_wrong_type_reads_as_absent(field: Field, wrong: Any) -> None:
    payload = ErrorPayload.model_validate({**FULL, field.wire_name: wrong})

    assert getattr(payload, field.wire_name) is None
    assert sum(value is not None for _, value in payload) == 6  # the five others, and the extra one


def test_string_for_a_number_reads_as_absent() -> None:
    assert ErrorPayload.model_validate({"status": "500"}).status is None


@pytest.mark.parametrize("show", [repr, str, "{!s}".format, "{}".format])
def test_repr_shows_the_status_alone(show: Any) -> None:
    """Texts of the gateway may hold personal data, so the repr shows none."""
    shown = show(ErrorPayload.model_validate(FULL))

    assert "canary" not in shown
    assert "500" in shown
