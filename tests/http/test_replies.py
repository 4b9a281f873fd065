"""Replies: what a body becomes, and the error that each broken or refusing one stands for."""

import json
import re
from codecs import BOM_UTF8, BOM_UTF16_BE
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from gateway_sdk import Advice, Outcome, UnexpectedReplyError, operations
from gateway_sdk._http.reply import ContentError, decode_json
from gateway_sdk.models import Country
from gateway_sdk.operations import LIST_COUNTRIES, OPERATIONS
from tests.http.replying import JSON, read, replying
from tests.interface_table import COUNTRY
from tests.support.calls import CALLS
from tests.support.secrecy import CANARY

OPEN = [operation.name for operation in OPERATIONS if operation.reply is Any]

# --- bodies that can be read ----------------------------------------------------------------

BODIES: list[tuple[str, bytes, str | None, Any]] = [
    ("object", b'{"a":[1,null,true]}', JSON, {"a": [1, None, True]}),
    ("null", b"null", JSON, None),
    ("zero", b"0", JSON, 0),
    ("text in JSON", b'"\xc3\xa9"', JSON, "é"),
    ("float", b"0.1", JSON, 0.1),
    ("a large exponent", b"1e100", JSON, 1e100),
    ("a small exponent", b"1e-999", JSON, 0.0),
    ("a large float", b"1.5E+300", JSON, 1.5e300),
    ("big integer", b"9" * 4300, JSON, int("9" * 4300)),
    ("white space around", b"\r\n {} \t", JSON, {}),
    ("the last of two keys", b'{"a":1,"a":2}', JSON, {"a": 2}),
    ("escaped pair", b'"\\ud83d\\ude00"', JSON, "\U0001f600"),
    ("BOM", b"\xef\xbb\xbf{}", JSON, {}),
    ("BOM and charset", b"\xef\xbb\xbf{}", JSON + "; charset=utf-8", {}),
    ("a type twice", b"{}", f"{JSON}, {JSON}", {}),
    ("upper case", b"{}", "Application/JSON;Charset=UTF-8", {}),
    ("quoted charset", b"{}", 'application/json; charset="utf-8"', {}),
    ("utf-16 with BOM", '{"a":"é"}'.encode("utf-16"), JSON, {"a": "é"}),
    ("utf-16-le without BOM", '{"a":"é"}'.encode("utf-16-le"), JSON, {"a": "é"}),
    ("utf-16-be without BOM", '{"a":"é"}'.encode("utf-16-be"), JSON, {"a": "é"}),
    ("utf-32", '{"a":"é"}'.encode("utf-32"), JSON, {"a": "é"}),
    ("utf-16 declared", '{"a":"é"}'.encode("utf-16"), JSON + "; charset=utf-16", {"a": "é"}),
    ("latin-1 declared", b'{"a":"\xe9"}', JSON + "; charset=iso-8859-1", {"a": "é"}),
    ("problem", b'{"title":"x"}', "application/problem+json", {"title": "x"}),
    ("hal", b"[]", "application/hal+json; v=1", []),
    ("text", b"pending", "text/plain", "pending"),
    ("JSON as text", b"12", "text/plain", 12),
    ("JSON as text/json", b'{"a":1}', "text/json", {"a": 1}),
    ("unknown charset", b'{"a":"\xc3\xa9"}', JSON + "; charset=utf8mb4", {"a": "é"}),
    ("charset that is no text", '{"a":"é"}'.encode("utf-16"), JSON + "; charset=hex", {"a": "é"}),
    ("charset of host names", b"{}", JSON + "; charset=Punycode", {}),
    ("JSON as HTML", b'{"a":1}', "text/html", {"a": 1}),
    ("nothing as HTML", b"", "text/html; charset=utf-8", None),
    ("white space as HTML", b"\r\n", "text/html", None),
    ("text as HTML", b"accepted", "text/html", "accepted"),
    ("utf-8 text", b"\xc3\xa9", "text/plain", "é"),
    ("latin-1 text", b"\xe9", "text/plain; charset=latin-1", "é"),
    ("text with BOM", b"\xef\xbb\xbfa", "text/plain", "a"),
    ("csv", b"a,b\n", "text/csv", "a,b\n"),
    ("bytes", b"\x89PNG", "image/png", b"\x89PNG"),
    ("JSON as bytes", b"{}", "application/octet-stream", {}),
    ("no type, JSON", b"[1]", None, [1]),
    ("no type, bytes", b"\x00\xff", None, b"\x00\xff"),
    ("no type, text", b"OK", None, b"OK"),
    ("no type, NaN", b"NaN", None, b"NaN"),
    ("empty", b"", JSON, None),
    ("empty but for its BOM", BOM_UTF8, JSON, None),
    ("empty but for its BOM, in UTF-16", BOM_UTF16_BE + b"\r\n", "text/plain", None),
    ("empty text", b"", "text/plain", None),
    ("empty of no type", b"", None, None),
    ("white space", b" \r\n\t", JSON, None),
]


@pytest.mark.parametrize(
    ("body", "content_type", "value"), [pytest.param(*row, id=name) for name, *row in BODIES]
)
async def test_open_body_is_decoded(body: bytes, content_type: str | None, value: Any) -> None:
    found = await read(body, content_type)

    assert found == value
    assert type(found) is type(value)


async def test_countries_are_models() -> None:
    more, short = {**COUNTRY, "id": 2, "capital": "Warsaw"}, {"id": 3, "currency": None}
    body = json.dumps([more, COUNTRY, short]).encode()

    countries = await replying(body).country_data.list_countries()

    assert [country.id for country in countries] == [2, 616, 3]
    assert [country.nationality for country in countries] == ["Polish", "Polish", None]
    assert isinstance(countries[0], Country)
    assert countries[0].country_name == "Poland"
    assert countries[0].three_digit_iso_code == "POL"
    assert countries[0].model_extra == {"capital": "Warsaw"}
    assert await replying(b"[]").country_data.list_countries() == []


async def test_a_country_has_the_names_of_the_interface_only() -> None:
    """Python's name of a field is no name on the wire: there it is an unknown field."""
    body = json.dumps(
        [{"id": 1, "country_name": "Poland", "currency": "PLN", "more": 1.5}]
    ).encode()

    for parse_float in (None, Decimal):
        gateway = replying(body, parse_float=parse_float)
        (country,) = await gateway.country_data.list_countries()
        assert (country.country_name, country.currency) == (None, "PLN")
        assert country.model_extra == {"country_name": "Poland", "more": 1.5}
    assert Country(id=1, country_name="Poland").country_name == "Poland"


@pytest.mark.parametrize("content_type", [None, "text/plain", "application/octet-stream", JSON])
async def test_promised_json_is_read_whatever_it_is_called(content_type: str | None) -> None:
    body = b"\xef\xbb\xbf" + json.dumps([COUNTRY]).encode()

    countries = await replying(body, content_type).country_data.list_countries()

    assert countries[0].nationality == "Polish"


# --- bodies that break the promise ----------------------------------------------------------

BROKEN: list[tuple[str, bytes, str]] = [
    ("truncated", b'{"a":', JSON),
    ("text", b"OK", JSON),
    ("two values", b"{} {}", JSON),
    ("NaN", b"NaN", JSON),
    ("Infinity", b'{"a":[Infinity]}', JSON),
    ("minus Infinity", b"-Infinity", JSON),
    ("number beyond floats", b"1e999", JSON),
    ("negative beyond floats", b'{"a":-1e999}', JSON),
    ("beyond floats without an exponent", b"[0.5, 1" + b"0" * 309 + b".5]", JSON),
    ("beyond floats with one digit in the exponent", b"[" + b"9" * 300 + b"e9]", JSON),
    ("beyond floats with two digits in the exponent", b"[" + b"9" * 210 + b"e+99]", JSON),
    ("beyond floats with two digits and no sign", b"[" + b"9" * 210 + b"e99]", JSON),
    ("beyond floats deep inside", b'[1.5,{"a":[{"b":[1e400]},"x"],"c":{}}]', JSON),
    ("100 000 levels", b"[" * 100_000 + b"]" * 100_000, JSON),
    ("100 000 objects", b'{"a":' * 100_000 + b"1" + b"}" * 100_000, JSON),
    ("5000 digits", b"9" * 5000, JSON),
    ("escaped lone surrogate", b'"\\ud800"', JSON),
    ("lone surrogate for a key", b'{"\\udc00":1}', JSON),
    ("surrogate in UTF-8", b'"\xed\xa0\x80"', JSON),
    ("surrogate in UTF-16", b'"\x00\x00\xd8"\x00', JSON + "; charset=utf-16-le"),
    ("not UTF-8", b'"\xff"', JSON),
    ("wrong charset", b'"\xff"', JSON + "; charset=utf-8"),
    ("odd utf-16", b"{}\x00", JSON + "; charset=utf-16"),
    ("text in an unknown charset", b"a", "text/plain; charset=canary-4711"),
    ("text not in its charset", b"\xff", "text/plain"),
    ("control character", b'"\n"', JSON),
    ("single quotes", b"{'a':1}", JSON),
    ("problem", b"{", "application/problem+json"),
]


@pytest.mark.parametrize("parse_float", [None, Decimal], ids=["float", "Decimal"])
@pytest.mark.parametrize(
    ("body", "content_type"), [pytest.param(*row, id=name) for name, *row in BROKEN]
)
async def test_broken_body_is_unexpected(
    body: bytes, content_type: str, parse_float: Callable[[str], Any] | None
) -> None:
    if parse_float and (number := re.search(rb"1e\d+|10{309}\.5|9{200,}e\+?\d+", body)):
        expected = await read(body, content_type, parse_float=parse_float)
        assert str(Decimal(number[0].decode())) in str(expected)
        return
    with pytest.raises(UnexpectedReplyError) as caught:
        await read(body, content_type, parse_float=parse_float)

    error = caught.value
    assert error.body == body
    assert error.status == 200
    assert error.outcome is Outcome.APPLIED
    assert error.problems == ""
    assert "canary" not in str(error)
    if content_type.startswith("text/") or parse_float:
        return
    inner = body if "utf-16" in content_type else b'{"inner":' + body + b"}"
    with pytest.raises(UnexpectedReplyError):  # likewise within a type of the user's
        await replying(inner, content_type).send(
            operations.SPOT_TRADING_AVAILABLE_BALANCE, into=dict[str, Any]
        )


@pytest.mark.parametrize("body", [b"1e99999999999999999999", b"[1.5e-99999999999999999999]"])
async def test_exponent_beyond_decimals_is_unexpected(body: bytes) -> None:
    with pytest.raises(UnexpectedReplyError):
        await read(body, parse_float=Decimal)


def _fails(text: str) -> Any:
    raise LookupError(text)


@settings(max_examples=2 * settings().max_examples)
@given(
    st.recursive(
        st.one_of(
            st.from_regex(
                r"-?[1-9][0-9]{0,3}(\.[0-9]{1,3})?([eE][+-]?[0-9]{1,3})?", fullmatch=True
            ),
            st.from_regex(r'"[0-9]{1,3}e[0-9]{3}-[0-9a-f]{4}"', fullmatch=True),
            st.builds(
                "{}{}{}".format,
                st.integers(195, 312).map(lambda digits: "9" * digits),
                st.sampled_from(["", ".5"]),
                st.sampled_from(["", "e0", "e8", "e9", "E+09", "e10", "e98", "e99", "e100"]),
            ),
        ),
        lambda inner: st.one_of(
            st.lists(inner, max_size=3).map(lambda items: f"[{','.join(items)}]"),
            inner.map(lambda item: f'{{"7e999":{item}}}'),
        ),
        max_leaves=6,
    )
)
def test_numbers_are_refused_exactly_if_they_become_infinite(text: str) -> None:
    """What looks like a large number in a text or a name is let through, at any depth."""
    infinite = "Infinity" in json.dumps(json.loads(text))
    try:
        value = decode_json(text.encode(), None)
    except ContentError:
        assert infinite
    else:
        assert not infinite
        assert value == json.loads(text)


async def test_parse_float_that_fails() -> None:
    """A `parse_float` that raises is a reply that could not be read: the write is applied."""
    with pytest.raises(UnexpectedReplyError) as caught:
        await replying(b"1.5", parse_float=_fails).aml.upload_document(b"x")

    assert caught.value.outcome is Outcome.APPLIED
    assert caught.value.advice is Advice.CHECK


@pytest.mark.parametrize("name", CALLS)
async def test_a_success_is_its_decoded_body_or_none(name: str) -> None:
    """Frameworks label an empty reply as HTML: a write that was done is not called doubtful."""
    if name == "list_countries":
        return  # the one body that the interface promises
    value = {"a": 1} if name in OPEN else None
    assert await CALLS[name](replying(b'{"a":1}')) == value
    for status in (200, 202, 204, 226, 299):
        assert await CALLS[name](replying(b"", "text/html; charset=utf-8", status)) is None
    if name == "send_webhook":  # whatever its body says
        for body in (b"anything", b"{"):
            assert await CALLS[name](replying(body, status=299)) is None


@pytest.mark.parametrize("number", ["NaN", "-Infinity", "1e999", "1" * 400 + ".0"])
async def test_an_unknown_field_of_a_country_holds_no_odd_number(number: str) -> None:
    """Only such fields are looked at, because the types of the others allow none."""
    known = json.dumps([{**COUNTRY, "countryName": number}]).encode()
    assert (await replying(known).country_data.list_countries())[0].country_name == number
    for body in (b'[{"id":1,"more":%b}]', b'[{"id":1,"more":[{"x":%b}]},{"id":2}]'):
        with pytest.raises(UnexpectedReplyError) as caught:
            await replying(body % number.encode()).country_data.list_countries()
        assert caught.value.outcome is Outcome.APPLIED


@pytest.mark.parametrize(
    ("start", "content_type"),
    [
        (b"<html>", "text/html"),
        (b"<html>", "TEXT/HTML; charset=utf-8"),
        (b"<HTML>", "application/xhtml+xml"),
        (b"<p>", "text/html"),
        (b"\xef\xbb\xbf\r\n<!DOCTYPE html>", JSON),
        (b"<html>", "text/plain"),
        ("<html>".encode("utf-16"), "text/html; charset=utf-16"),
        ("\n<!doctype html>".encode("utf-16-be"), None),
        (b"<html>", None),
    ],
)
@pytest.mark.parametrize("name", CALLS)
async def test_web_page_is_not_the_gateway(
    name: str, start: bytes, content_type: str | None
) -> None:
    body = start + CANARY.encode()
    with pytest.raises(UnexpectedReplyError, match="web page: a proxy or a portal") as caught:
        await CALLS[name](replying(body, content_type))

    assert caught.value.outcome is Outcome.UNKNOWN
    assert caught.value.body == body
    assert CANARY not in str(caught.value)


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        (b"{}", "it: Input should be a valid array"),
        (b"null", "it: Input should be a valid array"),
        (b'{"countries":[]}', "it: Input should be a valid array"),
        (b"[1]", "0: Input should be an object"),
        (b"[{}]", "0.id: Field required"),
        (json.dumps([COUNTRY, {**COUNTRY, "id": "616"}]).encode(), "1.id: Input should be a valid"),
        (json.dumps([{**COUNTRY, "id": True}]).encode(), "0.id: Input should be a valid integer"),
        (json.dumps([{**COUNTRY, "id": 1.5}]).encode(), "0.id: Input should be a valid integer"),
        (json.dumps([{**COUNTRY, "currency": 5}]).encode(), "0.currency: Input should be"),
        (json.dumps([{**COUNTRY, "phone_code": 48}]).encode(), "0.phone_code: Input should be"),
    ],
)
async def test_list_that_is_none(body: bytes, problem: str) -> None:
    with pytest.raises(UnexpectedReplyError) as caught:
        await replying(body).country_data.list_countries()

    assert problem in caught.value.problems
    assert problem in str(caught.value)
    assert caught.value.body == body
    assert caught.value.outcome is Outcome.APPLIED
    assert caught.value.advice is not Advice.CHECK
    assert "Polish" not in str(caught.value)


@pytest.mark.parametrize("into", [None, list[Country]])
@pytest.mark.parametrize(
    ("body", "problem"),
    [
        (b"{", "EOF while parsing an object at line 1 column 1"),
        (b"[1.5,", "EOF while parsing a value at line 1 column"),
        (b'[{"id":' + b"7" * 5000 + b"}]", "number out of range at line 1 column"),
    ],
    ids=["cut", "cut behind a fraction", "too many digits"],
)
@pytest.mark.parametrize("parse_float", [None, Decimal])
async def test_records_that_are_no_json(
    body: bytes, problem: str, into: Any, parse_float: Any
) -> None:
    """The place is told; a field that is wrong is not, because there is none."""
    with pytest.raises(UnexpectedReplyError, match=f"the body is not JSON: {problem}") as caught:
        await replying(body, parse_float=parse_float).send(LIST_COUNTRIES, into=into)

    assert caught.value.problems == ""
