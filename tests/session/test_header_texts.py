"""What is given for a header: no text makes another one, and a refusal does not show it."""

import asyncio
from typing import Any

from hypothesis import given, settings, strategies as st

from gateway_sdk import ConfigurationError, GatewaySession
from tests.support.calls import CALLS
from tests.support.raw_server import OK, raw_server, read_request
from tests.support.secrecy import CANARY, texts_of

HEADER_TEXTS = st.one_of(
    st.text(max_size=20),
    st.text(alphabet="aZ0 \t\r\n\x00\x0b\x1f\x7f\x80\xff\u0100:;\u2028", max_size=8),
)


OUT_OF_HEADERS = {*range(32), *range(0x7F, 0x80)} - {ord("\t")}  # RFC 9110, 5.5


def refusal_of(gateway: GatewaySession, **options: Any) -> str:
    try:
        gateway.with_options(**options)
    except ConfigurationError as error:
        return texts_of(error)
    return ""


async def test_no_text_in_a_header_makes_another_one() -> None:
    """What is sent is neither stripped nor folded within, and in Latin-1 as with httpx."""
    heads: list[bytes] = []

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            heads.append(await read_request(reader))
            writer.write(OK)

    refused = ["a\r\nX: 1", "\n", "\x00", "\N{EURO SIGN}"]
    examples = [*refused, "a\tb", "\xff", "a  b", '"quoted", \\ and more', "x" * 5000]

    @settings(deadline=None)
    @given(HEADER_TEXTS)
    def collect(text: str) -> None:
        examples.append(text)

    collect()
    options: dict[str, Any] = {"tenant_id": "x", "token_header": "x", "headers": {"X-kEY": "x"}}
    async with (
        raw_server(handle) as url,
        GatewaySession(url, access_token="t", **options) as gateway,
    ):
        await CALLS["cancel_order"](gateway)
        usual = len(heads.pop().split(b"\r\n"))
        for text in [*examples, *(f"{CANARY}{text}{CANARY}" for text in examples)]:
            options = {
                "tenant_id": text,
                "token_header": text,
                "headers": {"X-kEY": text},
            }
            refusals = [refusal_of(gateway, **{name: options[name]}) for name in options]
            is_wrong = any(ord(char) in OUT_OF_HEADERS or ord(char) > 255 for char in text)
            is_wrong = is_wrong or text != text.strip(" \t") or not text
            assert list(map(bool, refusals)) == [is_wrong] * 3
            assert CANARY not in "".join(refusals)
            if is_wrong:
                continue
            await CALLS["cancel_order"](gateway.with_options(**options))
            lines = heads.pop().split(b"\r\n")
            assert len(lines) == usual
            for name in (b"tenantId", b"token", b"X-kEY"):
                assert name + b": " + text.encode("latin-1") in lines

    assert heads == []
