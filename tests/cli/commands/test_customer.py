import json
from collections.abc import Callable
from pathlib import Path

import pytest

from gateway_sdk.models import Address, CreateRequest, PersonData
from gateway_sdk.sandbox import Sandbox
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


def test_debugging_shows_the_words_of_the_gateway(
    call_gateway: Call, served: Sandbox, ada: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """They stand above the traceback."""
    assert call_gateway("customer", "create", ada).status == 0

    with pytest.raises(Exception, match="409"):
        call_gateway("--debug", "customer", "create", ada)

    assert "“a customer with this externalCustomerId already exists”" in capsys.readouterr().err


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
