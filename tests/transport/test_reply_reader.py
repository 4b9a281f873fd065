"""Replies as httptools and our guards read them, beside h11: what is ambiguous is an error."""

from itertools import pairwise
from typing import Final

import h11
import pytest
from hypothesis import given, strategies as st

from gateway_sdk._transport.reply_reader import LONGEST_HEAD, ReplyReader
from tests.support.raw_replies import (
    BOTH,
    CHUNKED,
    DIFFERENT,
    DONE,
    LOST,
    OK,
    REASONS,
    SIZED,
    Seen,
)


def ours(data: bytes, *cuts: int, cleanly: bool = True) -> Seen:
    """Read with our reader, in pieces that end at some places."""
    reader = ReplyReader()
    places = [0, *sorted(cuts), len(data)]
    for start, end in pairwise(places):
        reader.receive(data[start:end])
    again = reader.can_be_reused
    reader.receive_end(cleanly=cleanly)
    assert reader.is_whole == (reader.failure is None)
    assert reader._parser is None
    return Seen(reader.status, reader.take(), reader.is_whole, again)


def read_of(seen: Seen) -> tuple[int, bytes, bool]:
    """Return what was read; blank lines behind it count only if they come at once."""
    return seen.status, seen.body, seen.whole


def can_go_on(connection: h11.Connection) -> bool:
    left, is_closed = connection.trailing_data
    try:
        connection.start_next_cycle()
    except h11.LocalProtocolError:
        return False
    return not (left or is_closed)


def by_h11(data: bytes) -> Seen:
    connection = h11.Connection(h11.CLIENT, max_incomplete_event_size=LONGEST_HEAD)
    connection.send(h11.Request(method="GET", target="/", headers=[("Host", "g.test")]))
    connection.send(h11.EndOfMessage())
    status, body = 0, b""
    try:
        for part in (data, b""):
            connection.receive_data(part)
            while (event := connection.next_event()) not in (h11.NEED_DATA, h11.PAUSED):
                match event:
                    case h11.Response():
                        status = event.status_code
                    case h11.Data():
                        body += bytes(event.data)
                    case h11.EndOfMessage():
                        return Seen(status, body, whole=True, again=can_go_on(connection))
                    case h11.ConnectionClosed():
                        break
                    case _:
                        pass
    except h11.RemoteProtocolError:
        pass
    return Seen(status, body)


@pytest.mark.parametrize(("data", "seen"), BOTH.values(), ids=BOTH)
def test_what_both_parsers_agree_on(data: bytes, seen: Seen) -> None:
    """However it is cut, and it is what h11 says, too."""
    assert ours(data) == seen
    assert ours(data, *range(1, len(data), 1 if len(data) < LONGEST_HEAD else 9973)) == seen
    assert by_h11(data) == seen


@pytest.mark.parametrize(("data", "seen", "other"), DIFFERENT.values(), ids=DIFFERENT)
def test_where_the_parsers_differ(data: bytes, seen: Seen, other: Seen) -> None:
    """Each difference is known and decided; docs/performance.md lists them."""
    assert ours(data) == seen
    assert by_h11(data) == other
    cuts = [(cut,) for cut in range(1, min(len(data), 200))]
    steps = [range(1, len(data), step) for step in (1, 2, 3)]
    for cut in (*cuts, *steps):
        assert read_of(ours(data, *cut)) == read_of(seen)


@pytest.mark.parametrize(("data", "reason"), REASONS.items(), ids=REASONS.values())
def test_why_a_reply_cannot_be_read(data: bytes, reason: str) -> None:
    """In words that name the way out where there is one, and hold nothing of the reply."""
    reader = ReplyReader()
    reader.receive(data)
    reader.receive_end(cleanly=True)

    assert reader.failure == reason


def test_a_folded_field_is_one_field() -> None:
    """Each fold becomes a blank (RFC 9112, 5.2)."""
    reader = ReplyReader()
    reader.receive(OK + b"X-One: a \r\n\t b\r\n" + SIZED)
    assert reader.fields[0] == (b"X-One", b"a b")


def test_a_head_byte_by_byte_takes_no_more_than_its_length() -> None:
    """The work for bytes that come one by one is bounded, in unusual heads too."""
    reader, data = ReplyReader(), OK + b"X: a\r\n " + b"x" * LONGEST_HEAD
    for place in range(len(data)):
        reader.receive(data[place : place + 1])
    assert reader.failure == "its reply has a head or a line without end"


def test_a_reply_to_the_end_needs_a_clean_one() -> None:
    """Else a part of it may be missing; one with a length is whole in any case."""
    assert ours(OK + b"\r\n{}", cleanly=False) == Seen(200, b"{}")
    assert ours(OK + SIZED, cleanly=False) == DONE


def test_trailing_blanks_are_no_part_of_a_value() -> None:
    """Names and values are handed over as they were sent."""
    reader = ReplyReader()
    reader.receive(OK + b"x-ONE:  a b \t \r\n" + SIZED)
    assert reader.fields == [(b"x-ONE", b"a b"), (b"Content-Length", b"2")]


SAMPLES: Final = [data for data, _ in BOTH.values()] + [data for data, _, _ in DIFFERENT.values()]
PARTS: Final = st.sampled_from(
    [data for data in SAMPLES if len(data) < 300]
    + [OK, SIZED, CHUNKED, b"\r\n", b"\n", b"\r", b"0\r\n\r\n", b"2\r\n{}\r\n", b";x=y", b"\0"]
    + [b"Content-Length: 5\r\n", b"Transfer-Encoding: chunked\r\n", b" ", b"\t", b"HTTP/1.1 "]
)
STREAMS: Final = st.lists(PARTS | st.binary(max_size=6), max_size=5).map(b"".join)


def agree(one: Seen, other: Seen) -> bool:
    """Tell whether two parsers have read the same, as far as both have read anything."""
    if not (one.status and other.status):
        return True
    short = min(len(one.body), len(other.body))
    same = one.status == other.status and one.body[:short] == other.body[:short]
    return same and (one.body == other.body or not (one.whole and other.whole))


@given(STREAMS, st.data())
def test_no_stream_is_read_in_two_ways(stream: bytes, data: st.DataObject) -> None:
    """However it is cut; and what both parsers take for a reply is the same reply."""
    cuts = data.draw(st.lists(st.integers(0, len(stream)), max_size=6))
    seen = ours(stream)

    assert read_of(ours(stream, *cuts)) == read_of(seen)
    assert agree(seen, by_h11(stream))


@given(STREAMS, STREAMS)
def test_two_replies_never_become_one(stream: bytes, more: bytes) -> None:
    """What comes behind a whole reply changes nothing of it, and ends the connection's use."""
    seen = ours(OK + SIZED + stream)
    assert (seen.status, seen.body, seen.whole) == (200, b"{}", True)
    if seen.again:
        assert not stream.strip(b"\r\n")
    first = ours(stream)
    if first.whole and first.again:
        assert ours(stream + more).body == first.body


@given(st.binary(max_size=40), st.integers(0, 40))
def test_any_bytes_are_a_reply_or_an_error(data: bytes, cut: int) -> None:
    """Nothing but an error comes of noise; no exception escapes."""
    noise = ours(data, min(cut, len(data)))
    assert noise == LOST
    body = ours(OK + b"Content-Length: %d\r\n\r\n" % len(data) + data, cut)
    assert body == Seen(200, data, whole=True, again=True)
