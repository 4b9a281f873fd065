"""Settings as fields of a user's models, as those of pydantic-settings."""

import json
from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from gateway_sdk import RateLimit, RetryBudget, RetryPolicy


@pytest.mark.parametrize("kind", [RetryPolicy, RetryBudget, RateLimit])
def test_a_setting_may_be_a_field_of_a_model(kind: Any) -> None:
    """As in pydantic-settings: from JSON, back to it, and described by a JSON schema."""
    adapter, made = TypeAdapter(kind), RateLimit(5, 2.0) if kind is RateLimit else kind()

    assert adapter.validate_json(adapter.dump_json(made, warnings="error")) == made
    assert adapter.json_schema()["properties"].keys() == json.loads(adapter.dump_json(made)).keys()


@pytest.mark.parametrize("statuses", [[503], (503,), {503}, frozenset({503}), range(503, 504)])
def test_statuses_of_a_model_are_any_collection(statuses: Any) -> None:
    made = TypeAdapter(RetryPolicy).validate_python({"statuses": statuses})
    assert made.statuses == RetryPolicy(statuses=statuses).statuses == (503,)
    with pytest.raises(ValidationError, match="from 400 to 599"):
        TypeAdapter(RetryPolicy).validate_python({"statuses": [200]})
