"""Secrets and personal data: in clear text only where necessary."""

import json
import pprint
from typing import Any

import pytest
from pydantic import SecretStr, ValidationError, create_model
from rich.pretty import pretty_repr

from gateway_sdk import models
from gateway_sdk.models import PersonData, SecretQuestionItem
from tests.interface_table import MODELS, SECRETS, sample
from tests.support.secrecy import texts_of

MASK = "**********"
CANARY = "canary-4711"
CUSTOMER_MODELS = [
    name
    for name in MODELS
    if name not in ("Country", "ErrorPayload", "ExchangeRateSeriesRequest", "OrderHistoryPage")
]
SHOWS: dict[str, Any] = {
    "repr": repr,
    "str": str,
    "format": "{}".format,
    "pprint": pprint.pformat,
    "rich": pretty_repr,
    "list": lambda model: repr([model]),
}


def _canaries(kind: str) -> Any:
    if kind.startswith("["):
        return [_canaries(kind[1:-1])]
    if kind in MODELS:
        return {field.wire_name: _canaries(field.type) for field in MODELS[kind]}
    return {"string": CANARY, "int64": 471147114711, "boolean": True, "any": {CANARY: [CANARY]}}[
        kind
    ]


def _model(name: str) -> Any:
    return getattr(models, name).model_validate(_canaries(name))


@pytest.mark.parametrize("show", SHOWS.values(), ids=SHOWS)
@pytest.mark.parametrize("name", CUSTOMER_MODELS)
def test_no_text_of_a_customer_model_shows_a_value(name: str, show: Any) -> None:
    model = _model(name)

    shown = show(model)

    assert CANARY not in shown
    assert "471147114711" not in shown
    assert all(f"{field}='{MASK}'" in shown for field in type(model).model_fields)


@pytest.mark.parametrize("show", SHOWS.values(), ids=SHOWS)
def test_the_text_of_an_error_shows_its_status_alone(show: Any) -> None:
    """Texts of the gateway may hold personal data."""
    shown = show(
        models.ErrorPayload.model_validate({"message": CANARY, "x": CANARY, "status": 500})
    )

    assert CANARY not in shown
    assert "500" in shown


def test_repr_leaves_out_what_was_not_set() -> None:
    assert repr(PersonData(email=CANARY)) == "PersonData(email='**********')"


@pytest.mark.parametrize(("name", "wire_name"), SECRETS)
@pytest.mark.parametrize("given", [CANARY, SecretStr(CANARY)])
def test_secret_is_masked_in_every_dump(name: str, wire_name: str, given: Any) -> None:
    model = getattr(models, name).model_validate({wire_name: given})

    assert all(isinstance(value, SecretStr) for _, value in model if value is not None)
    assert CANARY not in repr(model.model_dump())
    assert CANARY not in repr(model.model_dump(by_alias=True, exclude_unset=True))
    assert model.model_dump(mode="json", by_alias=True, exclude_unset=True) == {wire_name: MASK}
    assert json.loads(model.model_dump_json(by_alias=True, exclude_unset=True)) == {wire_name: MASK}
    assert model.to_wire() == {wire_name: CANARY}


@pytest.mark.parametrize("context", [None, {}, {"clear": True}, object(), True, "clear"])
def test_no_context_of_the_user_unmasks(context: Any) -> None:
    dumped = SecretQuestionItem(answer=SecretStr(CANARY)).model_dump(mode="json", context=context)

    assert dumped == {"answer": MASK}


@pytest.mark.parametrize(("name", "wire_name"), SECRETS)
@pytest.mark.parametrize("given", [MASK, SecretStr(MASK)])
def test_mask_itself_is_refused(name: str, wire_name: str, given: Any) -> None:
    """The mask as a secret is refused: a dump read back must not become the password."""
    with pytest.raises(ValidationError, match="is the mask of a secret"):
        getattr(models, name).model_validate({wire_name: given})


@pytest.mark.parametrize("name", CUSTOMER_MODELS)
def test_validation_error_shows_no_value(name: str) -> None:
    wrong: dict[str, Any] = {field.wire_name: [[CANARY]] for field in MODELS[name]}
    if name == "DocumentsItem":
        wrong["verificationResponse"] = [CANARY, object()]

    with pytest.raises(ValidationError) as caught:
        getattr(models, name).model_validate(wrong | {"unknown": CANARY})

    assert CANARY not in str(caught.value)
    assert CANARY not in repr(caught.value)


def test_an_error_in_a_model_of_the_users_says_that_the_value_is_hidden() -> None:
    """None in its place would read as the cause."""
    job = create_model("Job", person=PersonData)
    with pytest.raises(ValidationError) as caught:
        job.model_validate({"person": {"email": 4711, "documents": [{"name": [CANARY]}]}})

    assert str(caught.value).count(f"[type=wrong_argument, input_value='{MASK}', input_type=H") == 2
    assert [one["input"] for one in json.loads(caught.value.json())] == [MASK, MASK]
    assert CANARY not in texts_of(caught.value)


@pytest.mark.parametrize("name", CUSTOMER_MODELS)
@pytest.mark.parametrize("text", [f'{{"x": "{CANARY}",}}', f'"{CANARY}"'])
def test_what_is_no_json_of_a_model_shows_no_value(name: str, text: str) -> None:
    with pytest.raises(ValidationError, match=r"is wrong: Invalid|must be a") as refused:
        getattr(models, name).model_validate_json(text, strict=True)

    assert CANARY not in f"{refused.value}{refused.value.errors()}{refused.value.json()}"


@pytest.mark.parametrize("name", MODELS)
def test_models_are_frozen_and_what_was_refused_is_not_shown(name: str) -> None:
    model = getattr(models, name).model_validate(sample(name))

    for field in type(model).model_fields:
        with pytest.raises(ValidationError, match=f"(?s){field}.*frozen"):
            delattr(model, field)
        with pytest.raises(ValidationError, match=f"(?s){field}.*models are frozen") as refused:
            setattr(model, field, CANARY)
        assert CANARY not in f"{refused.value}{refused.value!r}{refused.value.errors()}"
        assert refused.value.__cause__ is None
        assert refused.value.__suppress_context__
