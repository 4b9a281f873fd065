"""Secrets on other ways than that of a reply: proxies, streams, headers, pickles."""

import asyncio
import base64
import pickle
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from gateway_sdk import (
    Attempt,
    ConfigurationError,
    GatewayError,
    GatewaySession,
    Multipart,
    Outcome,
    RateLimitedError,
    Repeatability,
    ReplyLostError,
    UploadFailedError,
)
from gateway_sdk.models import ErrorPayload
from tests.support.calls import CALLS
from tests.support.proxies import Proxy
from tests.support.raw_server import OK, raw_server, read_request, serving
from tests.support.secrecy import CANARY, logged, texts_of
from tests.support.secret_calls import THEIRS, everything_logged, session

REFUSALS = {
    "407": b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n",
    "502": b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n",
    "no tunnel": b"HTTP/1.1 200 OK\r\n\r\n",
    "nonsense": b"nonsense\r\n\r\n",
}


@pytest.mark.parametrize("answer", REFUSALS.values(), ids=REFUSALS)
@pytest.mark.parametrize("base_url", ["https://gateway.test", "http://gateway.test"])
async def test_no_text_shows_the_password_of_a_proxy(
    caplog: pytest.LogCaptureFixture, answer: bytes, base_url: str
) -> None:
    """Neither in clear nor as it is sent: in no error, no log, no repr."""
    proxy = Proxy(1, answer)
    async with everything_logged(caplog) as records, serving(proxy.handle) as port:
        gateway = session(
            base_url,
            proxy=f"http://user:{CANARY}@127.0.0.1:{port}",
            allow_insecure_http=True,
            retry=None,
        )
        results = await asyncio.gather(CALLS["cancel_order"](gateway), return_exceptions=True)
        shown = repr([gateway, gateway._caller.shared._engine, gateway._caller.shared._transport])
        await gateway.aclose()

    secret = base64.b64encode(f"user:{CANARY}".encode())
    assert secret in proxy.heads[0]
    texts = [shown, logged(records), *(texts_of(error) for error in results if error)]
    for text in texts:
        assert CANARY not in text
        assert secret.decode() not in text
    if answer is REFUSALS["407"]:  # somebody can do something about it
        assert "407" in texts[-1]


async def test_no_text_shows_what_a_stream_was_or_why_it_failed(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The error of somebody's stream may say anything, and is not repeated."""

    async def stream() -> AsyncIterator[bytes]:
        yield CANARY.encode()
        raise RuntimeError(CANARY)

    async def take(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
        while await reader.read(65536):
            pass

    async with (
        everything_logged(caplog) as records,
        raw_server(take) as url,
        session(url) as gateway,
    ):
        with pytest.raises(UploadFailedError) as caught:
            await gateway.aml.upload_document(stream())

    assert CANARY not in texts_of(caught.value)
    assert CANARY not in logged(records)


def test_no_text_of_options_names_the_tenant() -> None:
    """The options of a view show neither who it works for nor with what."""
    gateway = session("https://gateway.test")

    for shown in (gateway._caller.options, gateway.with_options(timeout=1.0)._caller.options):
        assert CANARY not in repr(shown)


def test_no_text_of_a_form_shows_what_is_in_it() -> None:
    """Names, fields and files of a form are the user's."""
    form = Multipart({CANARY: CANARY}, {CANARY: [(CANARY, CANARY.encode()), Path(CANARY)]})

    assert CANARY not in f"{form} {form!r}"


HEADER_TEXTS = st.one_of(
    st.text(max_size=20),
    st.text(alphabet="aZ0 \t\r\n\x00\x0b\x1f\x7f\x80\xff\u0100:;\u2028", max_size=8),
)


OUT_OF_HEADERS = {*range(32), *range(0x7F, 0x80)} - {ord("\t")}  # RFC 9110, 5.5


def refusal_of(gateway: GatewaySession, **options: Any) -> str:
    """Return all that the error of a view shows; nothing if there is none."""
    try:
        gateway.with_options(**options)
    except ConfigurationError as error:
        return texts_of(error)
    return ""


async def test_no_text_in_a_header_makes_another_one() -> None:
    """Over a socket, any text is refused unshown, or is exactly that value of that header."""
    heads: list[bytes] = []

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            heads.append(await read_request(reader))
            writer.write(OK)

    examples = ["a\r\nX: 1", "\n", "\x00", "\N{EURO SIGN}", "a\tb", "\xff"]

    @settings(deadline=None)
    @given(HEADER_TEXTS)
    def collect(text: str) -> None:
        examples.append(text)

    collect()
    async with raw_server(handle) as url, session(url) as gateway:
        await CALLS["cancel_order"](gateway)
        usual = len(heads.pop().split(b"\r\n"))
        for text in [*examples, *(f"{CANARY}{text}{CANARY}" for text in examples)]:
            options: dict[str, Any] = {
                "tenant_id": text,
                "token_header": text,
                "headers": {"X-Key": text},
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
            for name in (b"tenantId", b"token", b"X-Key"):
                assert name + b": " + text.encode("latin-1") in lines

    assert heads == []


ATTEMPTS = st.lists(
    st.builds(
        Attempt,
        outcome=st.sampled_from(Outcome),
        status=st.none() | st.integers(100, 599),
        error=st.none() | st.sampled_from(["ServerError", "ReplyLostError"]),
        elapsed=st.floats(0, 1e6),
    ),
    max_size=4,
)
SAID = st.binary(max_size=20).map(lambda said: THEIRS.encode() + said)


@given(
    ATTEMPTS,
    st.sampled_from(Repeatability),
    st.integers(100, 599),
    st.none() | st.floats(0, 1e6),
    SAID,
)
def test_an_error_comes_through_a_pickle_without_what_the_gateway_said(
    attempts: list[Attempt],
    repeatability: Repeatability,
    status: int,
    retry_after: float | None,
    said: bytes,
) -> None:
    """Another process learns what became of the call, and nothing of its content."""
    refused = RateLimitedError(
        "refused", status=status, body=said, headers={"x": said.decode("latin-1")}
    )
    refused.payload = ErrorPayload(message=said.decode("latin-1"), path=THEIRS)
    refused.retry_after = retry_after
    lost: GatewayError = ReplyLostError("lost", status=status)
    for error in (refused, lost):
        error.of_call("cancel_order", repeatability, tuple(attempts))

        pickled = pickle.dumps(error)
        twin = pickle.loads(pickled)  # noqa: S301 - our own

        assert THEIRS.encode() not in pickled
        assert str(twin) == twin.summary == error.summary  # the reason is not there any more
        for name in ("attempts", "outcome", "repeatability", "advice", "status"):
            assert getattr(twin, name) == getattr(error, name)
        assert getattr(twin, "retry_after", None) == getattr(error, "retry_after", None)
