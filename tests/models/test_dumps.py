"""What pydantic writes of a request can be read again, and is as its JSON schema says."""

import copy
import pickle
from collections.abc import Callable
from functools import cache
from typing import Annotated, Any

import pytest
from hypothesis import given, strategies as st
from pydantic import AfterValidator, SerializeAsAny, TypeAdapter, create_model
from pydantic_core import PydanticSerializationError

from gateway_sdk import models
from gateway_sdk.models import _base
from tests.interface_table import MODELS, REQUESTS, REQUIRED_FIELDS, SECRETS, sample


@cache
def _values(kind: str) -> st.SearchStrategy[Any]:
    """Make values of a type of the table, with some of the fields, and null where it may be."""
    if kind.startswith("["):
        return st.lists(_values(kind[1:-1]), max_size=2)
    if kind not in MODELS:
        return st.just(sample(kind))
    fields = {
        field.wire_name: st.none() | _values(field.type) if field.nullable else _values(field.type)
        for field in MODELS[kind]
        if (kind, field.wire_name) not in SECRETS
    }
    return st.fixed_dictionaries(
        *((fields,) if kind in REQUIRED_FIELDS else ({},)),
        optional={} if kind in REQUIRED_FIELDS else fields,
    )


REQUESTS_MADE = st.one_of(
    *(_values(name).map(getattr(models, name).model_validate) for name in REQUESTS)
)


def _any(value: Any) -> Any:
    return value


def _by_adapter(make: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Write and read as a part of something of the user's, which FastAPI and queues do."""

    @cache
    def list_of(kind: Any) -> TypeAdapter[Any]:
        whole: Any = list.__class_getitem__(make(kind))
        return TypeAdapter(whole)

    def there_and_back(request: Any) -> Any:
        adapter = list_of(request.__class__)
        (back,) = adapter.validate_json(adapter.dump_json([request], warnings="error"))
        assert adapter.validate_python(adapter.dump_python([request], warnings="error")) == [back]
        return back

    return there_and_back


@cache
def _subclass(kind: Any) -> Any:
    return type(kind.__name__, (kind,), {"__module__": __name__})


AS_ANY: Any = SerializeAsAny
WAYS: dict[str, Callable[[Any], Any]] = {
    "python": lambda it: it.model_validate(it.model_dump()),
    "wire names": lambda it: it.model_validate(it.model_dump(by_alias=True)),
    "round trip": lambda it: it.model_validate(it.model_dump(mode="json", round_trip=True)),
    "what is set": lambda it: it.model_validate_json(it.model_dump_json(exclude_unset=True)),
    "JSON": lambda it: it.model_validate_json(it.model_dump_json()),
    "JSON, wire names": lambda it: it.model_validate_json(it.model_dump_json(by_alias=True)),
    "its wire": lambda it: it.model_validate(it.to_wire()),
    "dict": lambda it: type(it)(**dict(it)),
    "pickle": lambda it: pickle.loads(pickle.dumps(it)),  # noqa: S301
    "a deep copy": copy.deepcopy,
    "in a list": _by_adapter(lambda kind: kind),
    "in a union": _by_adapter(lambda kind: int | kind | str | None),
    "as anything": _by_adapter(lambda kind: AS_ANY[kind]),
    "checked": _by_adapter(lambda kind: Annotated[_any(kind), AfterValidator(_any)]),
    "by a type of the user's": lambda it: type(it).model_validate_json(
        _subclass(it.__class__).model_validate(it.model_dump()).model_dump_json()
    ),
}


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
@given(request=REQUESTS_MADE)
def test_a_request_comes_back_as_it_was(way: Callable[[Any], Any], request: Any) -> None:
    """Neither more nor less is sent then: absent is not null."""
    back = way(request)

    assert back == request
    assert back.to_wire() == request.to_wire()


def test_what_is_not_checked_is_dumped_as_it_is() -> None:
    """In a model of the user's that was made without a check; pydantic warns of it."""
    job = create_model("Job", request=models.CreateRequest)
    made = job.model_construct(request={"customer_name": None})

    with pytest.warns(UserWarning, match="serialized value may not be as expected"):
        assert made.model_dump() == {"request": {"customer_name": None}}


def test_what_is_sent_is_made_without_the_step_of_a_dump() -> None:
    """That would take three times as long."""
    person = models.PersonData(first_name=models.Name(name="Ada"))
    request = models.CreateRequest(person=person)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_base, "RequestModel", None)  # which that step looks at
        with pytest.raises(PydanticSerializationError):
            request.model_dump_json()
        assert request.__wire__() == b'{"person":{"firstName":{"name":"Ada"}}}'
