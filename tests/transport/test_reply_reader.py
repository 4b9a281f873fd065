"""Replies as our reader takes them, beside h11: what is ambiguous is an error."""

from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import h11
import pytest
from hypothesis import given, settings, strategies as st

from gateway_sdk._transport.reply_reader import LONGEST_HEAD, MOST_FIELDS, ReplyReader

OK: Final = b"HTTP/1.1 200 OK\r\n"
SIZED: Final = b"Content-Length: 2\r\n\r\n{}"
CHUNKED: Final = OK + b"Transfer-Encoding: chunked\r\n\r\n"


@dataclass(frozen=True)
class Seen:
    """What a parser makes of some bytes and the end of the connection behind them."""

    status: int  # 0 without a head
    body: bytes = b""  # what came of it
    whole: bool = False  # whether that is all of it
    again: bool = False  # whether the connection may be used again


LOST: Final = Seen(0)
FOLD: Final = b"X: a\r\n  b\r\n"
EARLY: Final = b"HTTP/1.1 103 E\r\nX: y\r\n\r\n"
CLOSING: Final = EARLY.replace(b"X: y", b"Connection: close")


DONE: Final = Seen(200, b"{}", whole=True, again=True)
LAST: Final = Seen(200, b"{}", whole=True)
BOTH: Final[dict[str, tuple[bytes, Seen]]] = {
    "Content-Length": (OK + SIZED, DONE),
    "a field of 90 KB": (OK + b"X: " + b"x" * 90_000 + b"\r\n" + SIZED, DONE),
    "900 fields": (OK + b"X: x\r\n" * 900 + SIZED, DONE),
    "a reason of 90 KB": (b"HTTP/1.1 200 " + b"x" * 90_000 + b"\r\n" + SIZED, DONE),
    "a folded field": (OK + FOLD + SIZED, DONE),
    "a field folded twice": (OK + b"X: a\r\n \r\n\tb\r\n" + SIZED, DONE),
    "a folded length": (OK + b"Content-Length:\r\n 2\r\n\r\n{}", DONE),
    "one length twice": (OK + b"Content-Length: 2\r\n" + SIZED, DONE),
    "one length in two cases": (OK + b"content-LENGTH: 2 \r\nX: y\r\n" + SIZED, DONE),
    "a list of one length": (OK + b"Content-Length: 2, 2\r\n\r\n{}", DONE),
    "a list of two lengths": (OK + b"Content-Length: 2, 3\r\n\r\n{}", LOST),
    "no reason": (b"HTTP/1.1 200\r\n" + SIZED, DONE),
    "an empty field": (OK + b"X:\r\nY: \r\n" + SIZED, DONE),
    "a field in Latin-1": (OK + b"X: \xe9\r\n" + SIZED, DONE),
    "a length with zeros": (OK + b"Content-Length: 02\r\n\r\n{}", DONE),
    "chunks": (CHUNKED + b"1\r\n{\r\n1\r\n}\r\n0\r\n\r\n", DONE),
    "a chunk extension": (CHUNKED + b'2;a="b;c"\r\n{}\r\n0\r\n\r\n', DONE),
    "trailers": (CHUNKED + b"2\r\n{}\r\n0\r\nX: 1\r\n\r\n", DONE),
    "a folded trailer": (CHUNKED + b"2\r\n{}\r\n0\r\n" + FOLD + b"\r\n", DONE),
    "a trailer without a colon": (CHUNKED + b"2\r\n{}\r\n0\r\nX\r\n\r\n", Seen(200, b"{}")),
    "a trailer cut": (CHUNKED + b"2\r\n{}\r\n0\r\nX: y\r\n", Seen(200, b"{}")),
    "a length among trailers": (CHUNKED + b"2\r\n{}\r\n0\r\nContent-Length: 9\r\n\r\n", DONE),
    "a blank behind a chunk's size": (CHUNKED + b"2 \r\n{}\r\n0\t\r\n\r\n", DONE),
    "LF behind a chunk's size": (CHUNKED + b"2\n{}\r\n0\r\n\r\n", Seen(200)),
    "LF behind a chunk": (CHUNKED + b"2\r\n{}\n0\r\n\r\n", Seen(200, b"{}")),
    "no size of a chunk": (CHUNKED + b";x\r\n{}\r\n0\r\n\r\n", Seen(200)),
    "chunked and a tab": (CHUNKED.replace(b"ed", b"ed \t ") + b"2\r\n{}\r\n0\r\n\r\n", DONE),
    "a tab before chunked": (CHUNKED.replace(b": ", b":\t") + b"2\r\n{}\r\n0\r\n\r\n", DONE),
    "a length and a tab": (OK + b"Content-Length:\t2 \t\r\n\r\n{}", DONE),
    "close and a tab": (OK + b"Connection: close\t,\tx\t\r\n" + SIZED, LAST),
    "Chunked": (CHUNKED.replace(b"chunked", b"Chunked") + b"2\r\n{}\r\n0\r\n\r\n", DONE),
    "interim replies": (
        b"HTTP/1.1 100 C\r\nX: y\r\n\r\nHTTP/1.1 103 E\r\nContent-Length: 9\r\n\r\n" + OK + SIZED,
        DONE,
    ),
    "an offer of an upgrade": (OK + b"Upgrade: h2c\r\nConnection: upgrade\r\n" + SIZED, DONE),
    "204": (b"HTTP/1.1 204 -\r\n\r\n", Seen(204, whole=True, again=True)),
    "204 with a length": (
        b"HTTP/1.1 204 -\r\nContent-Length: 9\r\n\r\n",
        Seen(204, whole=True, again=True),
    ),
    "304 with a length": (
        b"HTTP/1.1 304 -\r\nContent-Length: 9\r\n\r\n",
        Seen(304, whole=True, again=True),
    ),
    "205 with a body": (b"HTTP/1.1 205 -\r\n" + SIZED, Seen(205, b"{}", whole=True, again=True)),
    "600": (b"HTTP/1.1 600 -\r\n" + SIZED, Seen(600, b"{}", whole=True, again=True)),
    "to the end": (OK + b"\r\n{}", LAST),
    "HTTP/1.0 to its end": (b"HTTP/1.0 200 OK\r\n\r\n{}", LAST),
    "HTTP/1.0": (b"HTTP/1.0 200 OK\r\n" + SIZED, LAST),
    "chunks in HTTP/1.0 that stays": (
        CHUNKED.replace(b"1.1 200 OK", b"1.0 200 OK\r\nConnection: keep-alive")
        + b"2\r\n{}\r\n0\r\n\r\n",
        LAST,
    ),
    "Connection: close": (OK + b"Connection: x, CLOSE\r\n" + SIZED, LAST),
    "a second reply": (OK + SIZED + OK + SIZED, LAST),
    "blank lines behind it": (OK + SIZED + b"\r\n", LAST),
    "a byte behind it": (OK + SIZED + b"H", LAST),
    "a reply behind 304": (b"HTTP/1.1 304 -\r\n\r\n" + OK + SIZED, Seen(304, whole=True)),
    "a body cut": (OK + b"Content-Length: 3\r\n\r\n{}", Seen(200, b"{}")),
    "a chunk cut": (CHUNKED + b"3\r\n{}", Seen(200, b"{}")),
    "no last chunk": (CHUNKED + b"2\r\n{}\r\n", Seen(200, b"{}")),
    "a chunk that is too long": (CHUNKED + b"2\r\n{}}\r\n0\r\n\r\n", Seen(200, b"{}")),
    "a chunk of size 0x2": (CHUNKED + b"0x2\r\n{}\r\n0\r\n\r\n", Seen(200)),
    "nothing": (b"", LOST),
    "a head cut": (OK + b"X: y\r\n", LOST),
    "another protocol": (b"SSH-2.0-OpenSSH_9.6\r\n\r\n", LOST),
    "101": (b"HTTP/1.1 101 -\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n", LOST),
    "RTSP": (b"RTSP/1.1 200 OK\r\n" + SIZED, LOST),
    "RTSP that refuses": (b"RTSP/1.0 400 -\r\n" + SIZED, LOST),
    "ICE": (b"ICE/1.0 200 OK\r\n" + SIZED, LOST),
    "ICY": (b"ICY 200 OK\r\n" + SIZED, LOST),
    "two lengths": (OK + b"Content-Length: 3\r\n" + SIZED, LOST),
    "an empty length": (OK + b"Content-Length:\r\n\r\n{}", LOST),
    "a negative length": (OK + b"Content-Length: -2\r\n\r\n{}", LOST),
    "a length with a sign": (OK + b"Content-Length: +2\r\n\r\n{}", LOST),
    "a length with a blank": (OK + b"Content-Length: 2 2\r\n\r\n{}", LOST),
    "a length of 1_0": (OK + b"Content-Length: 1_0\r\n\r\n0123456789", LOST),
    "gzip, chunked": (CHUNKED.replace(b"chunked", b"gzip, chunked") + b"0\r\n\r\n", LOST),
    "identity": (CHUNKED.replace(b"chunked", b"identity") + b"{}", LOST),
    "gzip and chunked": (OK + b"Transfer-Encoding: gzip\r\n" + CHUNKED[len(OK) :] + b"0", LOST),
    "chunked twice": (OK + b"Transfer-Encoding: chunked\r\n" + CHUNKED[len(OK) :] + b"0", LOST),
    "a blank before the colon": (OK + b"Content-Length : 2\r\n\r\n{}", LOST),
    "no colon": (OK + b"X\r\n" + SIZED, LOST),
    "no name": (OK + b": x\r\n" + SIZED, LOST),
    "a fold in the first field": (OK + b" X: y\r\n" + SIZED, LOST),
    "NUL in a value": (OK + b"X: a\0b\r\n" + SIZED, LOST),
    "CR in a value": (OK + b"X: a\rb\r\n" + SIZED, LOST),
    "a status of 2 digits": (b"HTTP/1.1 20 OK\r\n" + SIZED, LOST),
    "a status of 4 digits": (b"HTTP/1.1 2000 OK\r\n" + SIZED, LOST),
    "status 000": (b"HTTP/1.1 000 OK\r\n" + SIZED, LOST),
    "status 099": (b"HTTP/1.1 099 OK\r\n" + SIZED, LOST),
    "a head without end": (OK + b"X: " + b"x" * LONGEST_HEAD, LOST),
    "interim replies without end": (b"HTTP/1.1 100 -\r\n\r\n" * 8_000, LOST),
}
"""What our reader and h11 both make of it."""

DIFFERENT: Final[dict[str, tuple[bytes, Seen, Seen]]] = {
    # What h11 reads and we do not: each can be read in two ways, and is obsolete or forbidden.
    "bare LF": (OK + b"X: y\n" + SIZED, LOST, DONE),
    "bare LF everywhere": ((OK + SIZED).replace(b"\r", b""), LOST, DONE),
    "a length and chunks": (
        OK + b"Content-Length: 2\r\n" + CHUNKED[len(OK) :] + b"2\r\n{}\r\n0\r\n\r\n",
        LOST,
        DONE,
    ),
    "a length of 20 digits": (
        OK + b"Content-Length: 99999999999999999999\r\n\r\n{}",
        LOST,
        Seen(200, b"{}"),
    ),
    "a chunk of 68 bits": (CHUNKED + b"fffffffffffffffff\r\n{}", Seen(200), Seen(200, b"{}")),
    "an encoding among trailers": (
        CHUNKED + b"2\r\n{}\r\n0\r\nTransfer-Encoding: gzip\r\n\r\n",
        DONE,
        Seen(200, b"{}"),
    ),
    "a reason of 200 KB": (b"HTTP/1.1 200 " + b"x" * 200_000 + b"\r\n" + SIZED, LOST, DONE),
    "a head of 110 KiB": (OK + b"X: " + b"x" * 110 * 1024 + b"\r\n" + SIZED, LOST, DONE),
    "a head of 110 KiB behind another": (
        EARLY + OK + b"X: " + b"x" * 110 * 1024 + b"\r\n" + SIZED,
        LOST,
        DONE,
    ),
    "a control character in a value": (OK + b"X: a\x01b\r\n" + SIZED, LOST, DONE),
    "HTTP/1.2": (b"HTTP/1.2 200 OK\r\n" + SIZED, LOST, DONE),
    "HTTP/2": (b"HTTP/2.0 200 OK\r\n" + SIZED, LOST, DONE),
    "HTTP/0.9": (b"HTTP/0.9 200 OK\r\n" + SIZED, LOST, LAST),
    "thousands of fields": (OK + b"X: y\r\n" * MOST_FIELDS + SIZED, LOST, DONE),
    # What we read and h11 does not: none of it can be read in two ways.
    "blanks around an extension": (CHUNKED + b"2 ;\ta =\tb\r\n{}\r\n0\r\n\r\n", DONE, Seen(200)),
    "blank lines before it": (b"\r\n\r\n" + OK + SIZED, DONE, LOST),
    "NUL in the reason": (OK.replace(b"OK", b"O\0K") + SIZED, DONE, LOST),
    # What both read, and only one uses the connection again.
    "HTTP/1.0 that stays": (b"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\n" + SIZED, DONE, LAST),
    "an interim reply that closes": (CLOSING + OK + SIZED, LAST, DONE),
    "two interim replies that close": (CLOSING * 2 + OK + SIZED, LAST, DONE),
    "one that closes before a folded field": (CLOSING + OK + FOLD + SIZED, LAST, DONE),
    "one that closes among others": (EARLY + CLOSING + EARLY + OK + SIZED, LAST, DONE),
    "one that closes before chunks": (CLOSING + CHUNKED + b"2\r\n{}\r\n0\r\n\r\n", LAST, DONE),
}
"""What each makes of it: ours, h11."""


REASONS: Final[dict[bytes, str]] = {
    b"\0\0\x12\x04\0\0\0\0\0" + bytes(18): "it speaks HTTP/2 only",
    b"\0\0\x08\x07\0\0\0\0\0" + bytes(8): "it speaks HTTP/2 only",
    b"220 mail.test ESMTP\r\n": "it sent bytes that are no HTTP",
    OK + b"X: y\r\n" * (MOST_FIELDS + 2) + b"\r\n": "its reply has too many header fields",
    OK + b"X: " + b"x" * LONGEST_HEAD: "its reply has a head or a line without end",
    OK + b"X\r\n\r\n": "its reply is not HTTP/1.1 (Invalid header token)",
    OK + FOLD + b"X\r\n" + SIZED: "its reply is not HTTP/1.1 (Invalid header token)",
    CHUNKED + b"x\r\n": "its reply is not HTTP/1.1 (a chunk has no size)",
    CHUNKED + b"1;" + b"x" * LONGEST_HEAD: "its reply has a head or a line without end",
    CHUNKED + b"0\r\nX\r\n\r\n": "its reply is not HTTP/1.1 (Invalid header token)",
    b"\r\n" * LONGEST_HEAD: "its reply has a head or a line without end",
    b"RTSP/1.1 200 OK\r\n" + SIZED: "it sent bytes that are no HTTP",
    b"ICE": "it sent bytes that are no HTTP",
    b"HTTP/1.1 099 -\r\n" + SIZED: "its reply has a status below 100",
    b"HTTP/2.0 200 OK\r\n" + SIZED: "its reply is not HTTP/1.1 (another version)",
    b"HTTP/1.1 101 -\r\n\r\n": "it switched to another protocol (101)",
    OK
    + b"Transfer-Encoding: gzip\r\n\r\n": "its reply has a transfer coding that was not asked for",
    b"": "it closed the connection",
}


def ours(data: bytes, *cuts: int, cleanly: bool = True) -> Seen:
    reader = ReplyReader()
    places = [0, *sorted(cuts), len(data)]
    for start, end in pairwise(places):
        reader.receive(data[start:end])
    again = reader.can_be_reused()
    reader.receive_end(cleanly=cleanly)
    assert reader.is_whole == (reader.failure is None)
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


def cuts_of(data: bytes) -> range:
    """Return where to cut a stream in two; of one that takes long to read, in a few places only."""
    return range(1, min(len(data), 200), 1 if len(data) < LONGEST_HEAD // 2 else 19)


@pytest.mark.parametrize(("data", "seen"), BOTH.values(), ids=BOTH)
def test_what_both_parsers_agree_on(data: bytes, seen: Seen) -> None:
    """However it is cut, and it is what h11 says, too."""
    assert ours(data) == seen
    assert ours(data, *range(1, len(data), 1 if len(data) < LONGEST_HEAD else 9973)) == seen
    assert by_h11(data) == seen
    for cut in cuts_of(data):
        assert ours(data, cut) == seen


@pytest.mark.parametrize("name", sorted(BOTH.keys() - {"a fold in the first field"}))
def test_a_folded_field_changes_nothing(name: str) -> None:
    """At the beginning of any head, the first one of several."""
    data, seen = BOTH[name]
    folded = data.replace(b"\r\n", b"\r\n" + FOLD, 1)
    assert ours(folded) == by_h11(folded) == seen


@pytest.mark.parametrize(("data", "seen", "other"), DIFFERENT.values(), ids=DIFFERENT)
def test_where_the_parsers_differ(data: bytes, seen: Seen, other: Seen) -> None:
    """Each difference is known and decided; docs/performance.md lists them."""
    assert ours(data) == seen
    assert by_h11(data) == other
    steps = [range(1, len(data), step) for step in (1, 2, 3)]
    for cuts in (*((cut,) for cut in cuts_of(data)), *steps):
        assert read_of(ours(data, *cuts)) == read_of(seen)


@pytest.mark.parametrize(("data", "reason"), REASONS.items(), ids=REASONS.values())
def test_why_a_reply_cannot_be_read(data: bytes, reason: str) -> None:
    """In words that name the way out where there is one, and hold nothing of the reply."""
    head, end, body = data.partition(b"\r\n\r\n")
    for packets in ((data,), (head + end, body)):
        reader = ReplyReader()
        for packet in packets:
            reader.receive(packet)
        reader.receive_end(cleanly=True)

        assert str(reader.failure) == reason


@pytest.mark.parametrize("text", [b"a \r\n\t b\r\n", b" a b \t \r\n"])
def test_a_value_has_no_folds_and_no_blanks_around_it(text: bytes) -> None:
    """Each fold becomes a blank (RFC 9112, 5.2)."""
    reader = ReplyReader()
    reader.receive(OK + b"x-ONE: " + text + SIZED)
    assert reader.fields == [(b"x-ONE", b"a b"), (b"Content-Length", b"2")]


@pytest.mark.parametrize("begin", [OK + b"X: a\r\n ", CHUNKED + b"0\r\nX: "])
def test_a_head_byte_by_byte_takes_no_more_than_its_length(begin: bytes) -> None:
    """The work for bytes that come one by one is bounded, in unusual heads and trailers too."""
    reader, data = ReplyReader(), begin + b"x" * LONGEST_HEAD
    for place in range(len(data)):
        reader.receive(data[place : place + 1])
    assert str(reader.failure) == "its reply has a head or a line without end"


INTERIM: Final[dict[str, tuple[bytes, bytes]]] = {
    "no length": (b"", b""),
    "a length": (b"Content-Length: 3\r\n", b"[7,"),
    "a length and chunks": (
        b"Content-Length: 3\r\nTransfer-Encoding: chunked\r\n",
        b"3\r\n[7,\r\n",
    ),
    "chunks": (b"Transfer-Encoding: chunked\r\n", b"3\r\n[7,\r\n0\r\n\r\n"),
    "trailers": (
        b"Transfer-Encoding: chunked\r\n",
        b"3\r\n[7,\r\n0\r\nContent-Encoding: gzip\r\n\r\n",
    ),
}
"""The framing of an interim reply, and what would be its body."""


@pytest.mark.parametrize(("framing", "body"), INTERIM.values(), ids=INTERIM)
@pytest.mark.parametrize("status", range(100, 200))
def test_an_interim_reply_ends_at_its_empty_line(status: int, framing: bytes, body: bytes) -> None:
    """Whatever its fields say (RFC 9112, 6.3): no byte and no field of it is in the final one."""
    head = b"HTTP/1.1 %d -\r\n%b\r\n" % (status, framing)
    final = OK + b"Content-Length: 2\r\n\r\n8]"
    expected = LOST if status == 101 else Seen(200, b"8]", whole=True, again=True)
    for data, seen in ((head + final, expected), (head + body + final, LOST if body else expected)):
        # h11 refuses lengths that are no framing, too.
        assert by_h11(data) == seen
        assert ours(data) == ours(data, *range(1, len(data))) == seen
        if status in {100, 104, 199}:
            for cut in range(1, len(data)):
                assert ours(data, cut) == seen


def test_no_limit_is_set_back_before_the_final_head() -> None:
    """The body that an interim reply declares is no body, and interim replies have no end."""
    reader, more = ReplyReader(), b"HTTP/1.1 104 -\r\nContent-Length: 99999999\r\n\r\n"
    failures = []
    for _ in range(LONGEST_HEAD // len(more) + 1):
        reader.receive(more)
        failures.append(str(reader.failure))
    assert failures[-2:] == ["None", "its reply has a head or a line without end"]
    assert reader.take() == b""


@pytest.mark.parametrize("cut", range(1, 4))
def test_the_end_of_a_head_may_be_cut_before_a_large_body(cut: int) -> None:
    """What is behind a head does not count as a part of it."""
    body = bytes(2 * LONGEST_HEAD)
    head = OK + b"Content-Length: %d\r\n\r\n" % len(body)
    assert ours(head + body, len(head) - cut) == Seen(200, body, whole=True, again=True)


def test_a_reply_to_the_end_needs_a_clean_one() -> None:
    """Else a part of it may be missing; one with a length is whole in any case."""
    assert ours(OK + b"\r\n{}", cleanly=False) == Seen(200, b"{}")
    assert ours(OK + SIZED, cleanly=False) == DONE


SAMPLES: Final = [data for data, _ in BOTH.values()] + [data for data, _, _ in DIFFERENT.values()]
SHORT: Final = [data for data in SAMPLES if 0 < len(data) < 300]
PIECES: Final = [
    *(OK, SIZED, CHUNKED, b"\r\n", b"\n", b"\r", b"0\r\n\r\n", b"2\r\n{}\r\n", b";x=y", b"\0"),
    *(b"Content-Length: 5\r\n", b"Transfer-Encoding: chunked\r\n", b" ", b"\t", b"HTTP/1.1 "),
    *(b"Connection: close\r\n", b"HTTP/1.1 104 -\r\n", b",", b":", b";", b"="),
]
BYTES: Final = st.sampled_from(PIECES) | st.binary(max_size=6)


@st.composite
def mutated(draw: st.DrawFn) -> bytes:
    """Return a sample of a reply with a few bytes changed, lost, doubled or put in."""
    data = draw(st.sampled_from(SHORT))
    for _ in range(draw(st.integers(0, 3))):
        start = draw(st.integers(0, len(data)))
        end = start + draw(st.sampled_from((0, 1, 2, 8, 40)))
        data = data[:start] + draw(BYTES | st.just(data[start:end] * 2)) + data[end:]
    return data


STREAMS: Final = st.lists(mutated() | BYTES, max_size=5).map(b"".join)


def agree(one: Seen, other: Seen) -> bool:
    """Tell whether two parsers have read the same, as far as both have read anything."""
    if not (one.status and other.status):
        return True
    short = min(len(one.body), len(other.body))
    same = one.status == other.status and one.body[:short] == other.body[:short]
    return same and (one.body == other.body or not (one.whole and other.whole))


@settings(max_examples=1000)
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
    noise = ours(data, min(cut, len(data)))
    assert noise == LOST
    body = ours(OK + b"Content-Length: %d\r\n\r\n" % len(data) + data, cut)
    assert body == Seen(200, data, whole=True, again=True)
