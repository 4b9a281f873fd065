import httpx
import pytest


@pytest.mark.parametrize("body", [None, b"", b'{"event": "checked"}', b"\xff"])
async def test_webhook_accepts_any_body(client: httpx.AsyncClient, body: bytes | None) -> None:
    """A webhook call gets 202 without a body."""
    reply = await client.post("/kyc/1.0.0/webhook", content=body)

    assert reply.status_code == 202
    assert reply.content == b""


@pytest.mark.parametrize("body", [None, b"{}"])
async def test_countries_are_an_array_of_records(
    client: httpx.AsyncClient, body: bytes | None
) -> None:
    """The reply is the list itself, with or without a body in the request."""
    reply = await client.post("/countrydata/1.0.0/listData", content=body)

    assert reply.status_code == 200
    assert len(reply.json()) > 230
    assert reply.json()[0] == {
        "id": 1,
        "countryName": "Aruba",
        "nationality": "Aruban",
        "three_digit_iso_code": "ABW",
        "two_digit_iso_code": "AW",
        "currency": "AWG",
        "phone_code": "+297",
    }
