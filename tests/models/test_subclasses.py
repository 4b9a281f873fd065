"""Subclasses of requests: what they would send and the interface does not have is refused."""

import json
from collections.abc import Callable
from datetime import date
from enum import StrEnum
from functools import cached_property
from typing import Annotated, Any, Literal

import pytest
from pydantic import (
    AfterValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    PrivateAttr,
    ValidationError,
    computed_field,
    create_model,
    field_serializer,
    model_serializer,
)

from gateway_sdk import InvalidArgumentError, models, operations
from gateway_sdk.models import CreateRequest, Name, PersonData
from tests.interface_table import REQUESTS, sample
from tests.support.recorder import Recorder
from tests.support.secrecy import CANARY, texts_of


class More(PersonData):
    tax_id: str | None = None


class MoreOfMore(More):
    """It adds nothing itself."""


class Open(PersonData):
    model_config = ConfigDict(extra="allow")


class Renamed(PersonData):
    email: str | None = Field(None, serialization_alias="eMail")


class AliasLost(PersonData):
    secret_question: Any = None


class OtherAliases(PersonData):
    model_config = ConfigDict(alias_generator=str.upper)


class AtHome(PersonData):
    email: str | None = Field(None, exclude=True)


class Computed(PersonData):
    @computed_field  # type: ignore[prop-decorator]
    @property
    def tax_id(self) -> str:
        return CANARY


class WrittenAsAWhole(PersonData):
    @model_serializer(mode="wrap")
    def with_tax_id(self, write: Callable[[Any], dict[str, Any]]) -> dict[str, Any]:
        return {**write(self), "taxId": CANARY}


def retyped(**kinds: Any) -> type[PersonData]:
    """Return a person with other types of these fields."""
    fields: Any = {it: (kinds[it], None) for it in kinds}
    return create_model("Retyped", __base__=PersonData, **fields)


class Dashed(PersonData):
    @field_serializer("date_of_birth")
    def dashed(self, day: str) -> str:
        return day.replace("/", "-")


REFUSED: list[tuple[type[PersonData], dict[str, Any], str]] = [
    (More, {"taxId": CANARY}, "tax_id"),
    (More, {}, "tax_id"),
    (MoreOfMore, {"taxId": CANARY}, "tax_id"),
    (create_model("Made", __base__=PersonData, tax_id=(str, CANARY)), {}, "tax_id"),
    (Open, {"taxId": CANARY}, "taxId"),
    (Renamed, {"email": CANARY}, "email"),
    (AliasLost, {}, "secret_question"),
    (OtherAliases, {}, "email"),
    (AtHome, {"email": CANARY}, "email"),
    (Computed, {}, "tax_id"),
    (WrittenAsAWhole, {}, "with_tax_id"),
    (Dashed, {"dateOfBirth": "2000/01/02"}, "date_of_birth"),
    (retyped(email=Annotated[str | None, PlainSerializer(str)]), {}, "email"),
    (retyped(date_of_birth=date | None), {"dateOfBirth": date(2000, 1, 2)}, "date_of_birth"),
    (retyped(password=str | None), {"password": CANARY}, "password"),
    (retyped(documents=list[dict[str, str]] | None), {}, "documents"),
]
MAKE: dict[str, Callable[[type[PersonData], dict[str, Any]], Any]] = {
    "with its arguments": lambda kind, values: kind(**values),
    "from a mapping": lambda kind, values: kind.model_validate(values),
    "without pydantic's checks": lambda kind, values: kind.model_construct(**values),
    "as a type of a subclass of the whole": lambda kind, values: create_model(
        "Whole", __base__=CreateRequest, person=(kind, None)
    ).model_validate({"person": values}),
}


@pytest.mark.parametrize("make", MAKE.values(), ids=MAKE)
@pytest.mark.parametrize(("kind", "values", "field"), REFUSED)
def test_a_field_that_the_interface_does_not_have_is_refused(
    make: Any, kind: type[PersonData], values: dict[str, Any], field: str
) -> None:
    """Inside another request it would not be sent, without a word."""
    with pytest.raises(ValidationError) as caught:
        make(kind, values)

    (problem,) = [one for one in caught.value.errors() if one["loc"][-1] == field]
    assert problem["msg"] == (
        f"is not in the interface as {kind.__name__} has it: "
        "gateway.send(operation, body={...}) can send it"
    )
    assert CANARY not in texts_of(caught.value)


@pytest.mark.parametrize("name", REQUESTS)
async def test_no_model_of_the_interface_may_have_more(name: str) -> None:
    kind = create_model("Mine", __base__=getattr(models, name), tax_id=(str, "x"))

    with pytest.raises(ValidationError, match="tax_id\n  is not in the interface as Mine has it"):
        kind.model_validate(sample(name))


class Ours(CreateRequest):
    """It has everything that adds no field."""

    customer_type: Annotated[str | None, AfterValidator(lambda kind: kind.lower())] = None
    note: str = Field("", exclude=True)
    _row: int = PrivateAttr(7)

    @cached_property
    def label(self) -> str:
        return f"{self.customer_name} ({self._row})"


class OurName(Name):
    @property
    def initial(self) -> str:
        return (self.name or "")[:1]


class Word(StrEnum):
    FEMALE = "female"


class Narrower(PersonData):
    gender: Word | None = None
    nationality: Literal["AT", "DE"] = "AT"
    email: str | None = Field(default_factory=lambda: "a@b.c")
    first_name: OurName = OurName(name="Ada")


DEFAULTS = {"nationality": "AT", "email": "a@b.c", "firstName": {"name": "Ada"}}


@pytest.mark.parametrize("values", [{}, {"gender": "female", "email": None}, DEFAULTS])
async def test_what_a_subclass_shows_is_sent(values: dict[str, Any]) -> None:
    """Its own defaults too, alone and inside another request; those of the interface are not."""
    recorder = Recorder()
    gateway = recorder.session(tenant_id="acme")
    person = Narrower.model_validate(values, strict=False)

    await gateway.customer.create_customer(CreateRequest(person=person))
    await gateway.customer.create_customer({"person": person.model_copy(update={"gender": None})})

    wanted = {**DEFAULTS, **values}
    assert person.to_wire() == wanted
    assert [json.loads(it.content) for it in recorder.sent] == [
        {"person": wanted}, {"person": {**wanted, "gender": None}}
    ]  # fmt: skip


async def test_a_required_field_may_have_a_default_of_the_users() -> None:
    recorder = Recorder()
    page: Any = create_model("Page", __base__=models.OrderHistoryPage, take=(int, 50))
    query: Any = create_model("Query", __base__=models.ExchangeRateSeriesRequest, base=(str, "EUR"))
    asked = {"symbols": "USD", "start_date": "2026-01-01", "end_date": "2026-01-02"}

    gateway = recorder.session()
    await gateway.send(operations.ORDER_HISTORY, body=page(page=1))
    results = gateway.currency.exchange_rate_series_bulk([query(**asked)])
    assert [result.error async for result in results] == [None]

    sent = [json.loads(it.content) for it in recorder.sent]
    assert [it.get("take", it.get("base")) for it in sent] == [50, "EUR"]


async def test_a_subclass_that_sends_the_same_is_sent() -> None:
    recorder = Recorder()
    gateway = recorder.session(tenant_id="acme")
    person = PersonData(first_name=OurName(name="Ada"))
    ours = Ours(customer_type="PERSON", customer_name="Ada", note="row 7", person=person)

    await gateway.customer.create_customer(ours)
    await gateway.send(operations.CREATE_CUSTOMER, body=ours)

    assert ours.label == "Ada (7)"
    assert person.first_name.initial == "A"  # type: ignore[union-attr]
    wanted = b'{"customerType":"person","customerName":"Ada","person":{"firstName":{"name":"Ada"}}}'
    assert [request.content for request in recorder.sent] == [wanted, wanted]
    assert ours.model_copy(update={"note": "row 8"}).note == "row 8"
    assert Open(email="a@b.c").to_wire() == {"email": "a@b.c"}


async def test_the_way_that_the_error_names() -> None:
    recorder = Recorder()
    gateway = recorder.session(tenant_id="acme")

    with pytest.raises(
        InvalidArgumentError, match=r"person\.taxId is not a field of PersonData: in"
    ):
        await gateway.customer.create_customer({"person": {"taxId": "1"}})
    await gateway.send(operations.CREATE_CUSTOMER, body={"person": {"taxId": "1"}})

    assert [request.content for request in recorder.sent] == [b'{"person":{"taxId":"1"}}']
