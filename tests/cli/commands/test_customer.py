import io
import json
import math
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gateway_sdk.cli.commands.customer import read_revisions
from gateway_sdk.cli.process import CommandError
from gateway_sdk.models import Address, CreateRequest, PersonData
from gateway_sdk.sandbox import Fault, Sandbox
from tests.cli.ended import Ended

Call = Callable[..., Ended]

ADA = {
    "customerName": "Ada",
    "externalCustomerId": "ada-1",
    "isB2B": False,
    "person": {"firstName": {"name": "Ada"}, "pinCode": "canary", "SecretQuestion": []},
}


@pytest.fixture
def ada(tmp_path: Path) -> Path:
    path = tmp_path / "ada.json"
    path.write_text(json.dumps(ADA), encoding="utf-8")
    return path


def test_customer_is_created(call_gateway: Call, served: Sandbox, ada: Path) -> None:
    """The reply is JSON on standard output, and what was done is told beside it."""
    ended = call_gateway("customer", "create", ada)

    assert json.loads(ended.out) == {"customerId": "customer-0005", "externalCustomerId": "ada-1"}
    assert (ended.status, ended.err) == (0, "The customer is created.\n")
    assert [call.applied for call in served.received] == [True]


def test_customer_is_read_from_standard_input(
    call_gateway: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another program may make it."""
    monkeypatch.setattr(
        sys, "stdin", io.TextIOWrapper(io.BytesIO(json.dumps(ADA).encode()), encoding="utf-8")
    )

    assert call_gateway("customer", "create", "-", "--sandbox").status == 0


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ({"customerNam": "canary"}, "customerNam is not a field of CreateRequest"),
        ({"isB2B": "canary"}, "isB2B must be true or false, not a string"),
        (
            {"person": {"firstName": {"order": "canary"}}},
            "person.firstName.order must be a whole number, not a string",
        ),
        ({"person": {"pinCode": 4711}}, "person.pinCode must be a string, not a number"),
        ({"isDirector": math.nan}, "isDirector must be true or false, not a number"),
        ({"sharePercentage": math.inf}, "sharePercentage must be a whole number, not a number"),
        ({"sharePercentage": 12.5}, "sharePercentage must be a whole number, not a number"),
        ({"person": None}, "person may be left out, but not null"),
        (
            {"person": {"SecretQuestion": [{"answer": ["canary"]}]}},
            "person.SecretQuestion.0.answer must be a string, not a list",
        ),
        (["canary"], "the value must be an object, {...}, not a list"),
        ({"\x1b[2J": 1}, "\\x1b[2J is not a field of CreateRequest"),
    ],
)
def test_wrong_field_is_named_as_on_the_wire(
    call_gateway: Call, served: Sandbox, tmp_path: Path, content: Any, words: str
) -> None:
    """Its path and the problem are told with the file, no value is, and nothing is sent."""
    path = tmp_path / "customer.json"
    path.write_text(json.dumps(content), encoding="utf-8")

    ended = call_gateway("customer", "create", path)

    first, second = ended.err.splitlines()
    assert (ended.status, ended.out) == (2, "")
    assert first.startswith(f"gateway: {path}: {words}")
    assert second == "Nothing was sent."
    assert "canary" not in ended.err
    assert "4711" not in ended.err
    assert not served.received


def test_broken_json_is_told_with_its_place(call_gateway: Call, tmp_path: Path) -> None:
    """Line and column are told, before any setting is asked for."""
    path = tmp_path / "customer.json"
    path.write_text('{\n  "customerName": Ada\n}', encoding="utf-8")

    ended = call_gateway("customer", "create", path)

    assert ended.status == 2
    assert ended.err == (
        f"gateway: {path}, line 2, column 19: this is not JSON: Expecting value\n"
        "Nothing was sent.\n"
    )


def test_missing_tenant_is_named(call_gateway: Call, served: Sandbox, ada: Path) -> None:
    """It is the variable that is named."""
    ended = call_gateway("customer", "create", ada, GATEWAY_TENANT_ID="")

    assert ended.status == 2
    assert "GATEWAY_TENANT_ID" in ended.err
    assert not served.received


def test_lost_reply_of_a_creation_has_to_be_looked_into(
    call_gateway: Call, served: Sandbox, ada: Path
) -> None:
    """The status is 5, and the last line says what not to do."""
    served.faults.on("create_customer", Fault.drop_after_read(), at=1)

    ended = call_gateway("customer", "create", ada)

    assert (ended.status, ended.out) == (5, "")
    assert "it is unknown whether the gateway did it" in ended.err
    assert ended.err.endswith("\nCheck before you repeat it: it may have been done already.\n")
    assert len(served.received) == 1


def test_refusal_keeps_personal_words_for_debugging(
    call_gateway: Call, served: Sandbox, ada: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What the gateway says of a person is shown to whoever asks for it, and in no log."""
    assert call_gateway("customer", "create", ada).status == 0

    ended = call_gateway("customer", "create", ada)

    assert (ended.status, ended.out) == (3, "")
    assert (
        "409 Conflict about externalCustomerId (the gateway refused it: nothing was changed)"
        in ended.err
    )
    assert "(--debug shows its words)" in ended.err
    assert "already exists" not in ended.err


def test_debugging_shows_the_words_of_the_gateway(
    call_gateway: Call, served: Sandbox, ada: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """They stand above the traceback."""
    assert call_gateway("customer", "create", ada).status == 0

    with pytest.raises(Exception, match="409"):
        call_gateway("--debug", "customer", "create", ada)

    assert "“a customer with this externalCustomerId already exists”" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "current"),
    [
        (["status=active", "note=a = b"], {"status": "active", "note": "a = b"}),
        (["status="], {"status": ""}),
        (["status=old", "status=new"], {"status": "new"}),
    ],
)
def test_customer_is_revised_by_words(
    call_gateway: Call, words: list[str], current: dict[str, str]
) -> None:
    """A value may be empty and hold more of the signs; a key may come twice, in its order."""
    ended = call_gateway("customer", "revise", "customer-0001", *words, "--sandbox")

    assert json.loads(ended.out) == {"customerId": "customer-0001", "current": current}
    assert (ended.status, ended.err) == (0, "The customer is revised.\n")


@pytest.mark.parametrize(
    "content",
    [
        {"status": "active", "note": "b"},
        {
            "revisions": [
                {"key": "status", "value": "active"},
                {"key": "note", "value": "b"},
            ]
        },
    ],
)
def test_customer_is_revised_by_a_file(tmp_path: Path, content: Any) -> None:
    """Keys with values, or the object that goes over the wire."""
    path = tmp_path / "changes.json"
    path.write_text(json.dumps(content), encoding="utf-8")

    assert [(entry.key, entry.value) for entry in read_revisions([str(path)])] == [
        ("status", "active"),
        ("note", "b"),
    ]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ({"a": "b", "key": 1}, "changes.json, revision 2: value must be a string, not a number"),
        ({"revisions": ["canary"]}, "changes.json, revision 1: the value must be an object, {...}"),
        ({"revisions": [{"key": "a"}]}, "changes.json, revision 1: value is missing"),
        ({"revisions": [], "a": "b"}, "changes.json, revision 1: value must be a string"),
        ({}, 'changes.json has no revisions: write {"key": "value"}'),
        ({"revisions": []}, "changes.json has no revisions"),
        ([], "changes.json has no revisions"),
        ([{"key": "a"}], "changes.json, revision 1"),
        ("canary", "changes.json has no revisions"),
    ],
)
def test_file_without_revisions_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: Any, words: str
) -> None:
    """Which of them is wrong, and no value."""
    monkeypatch.chdir(tmp_path)
    Path("changes.json").write_text(json.dumps(content), encoding="utf-8")

    with pytest.raises(CommandError) as caught:
        read_revisions(["changes.json"])

    assert str(caught.value).startswith(words)
    assert str(caught.value).endswith("Nothing was sent.")
    assert "canary" not in str(caught.value)


@pytest.mark.parametrize(
    ("words", "place"), [(["a=b", "canary"], 2), (["=canary"], 1), (["canary", "a=b"], 1)]
)
def test_word_that_is_no_revision_is_told_by_its_place(words: list[str], place: int) -> None:
    """It may be half of a secret, so it is not repeated."""
    with pytest.raises(CommandError, match=f"^revision {place} is not KEY=VALUE") as caught:
        read_revisions(words)

    assert "canary" not in str(caught.value)


def test_word_that_no_json_can_hold_is_refused(call_gateway: Call, served: Sandbox) -> None:
    """A byte of the command line that is no text is told before anything is sent."""
    ended = call_gateway("customer", "revise", "customer-0001", "key=\udcff")

    assert (ended.status, ended.out) == (2, "")
    assert not served.received


def test_example_is_what_create_takes(call_gateway: Call, tmp_path: Path) -> None:
    """It has every field of the interface, and nothing that could be taken for a secret."""
    example = call_gateway("customer", "example")
    file = tmp_path / "ada.json"
    file.write_text(example.out, encoding="utf-8")

    ended = call_gateway("customer", "create", file, "--sandbox")

    assert (example.status, example.err, ended.status) == (0, "", 0)
    fields = json.loads(example.out)
    person = fields["person"]
    assert len(fields) == len(CreateRequest.model_fields)
    assert len(person) == len(PersonData.model_fields)
    assert len(person["addresses"][0]["address"]) == len(Address.model_fields)
    secrets = (person["pinCode"], person["password"], person["SecretQuestion"][0]["answer"])
    assert all(secret.startswith("EXAMPLE-") for secret in secrets)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (
            '{"person": {"firstName": "Ada"}}',
            "person.firstName must be an object, {...}, not a string",
        ),
        ('{"person": {"documents": {}}}', "person.documents must be a list, [...], not an object"),
        ('{"isB2B": "yes"}', "isB2B must be true or false, not a string"),
    ],
)
def test_wrong_field_is_told_in_the_words_of_json(
    call_gateway: Call, tmp_path: Path, content: str, words: str
) -> None:
    """The user has a file of JSON, and no values of Python."""
    file = tmp_path / "ada.json"
    file.write_text(content, encoding="utf-8")

    ended = call_gateway("customer", "create", file, "--sandbox")

    assert ended.status == 2
    assert f": {words}\nNothing was sent.\n" in ended.err
