"""Damaged lines: reported, never used, skipped on request, and no write is repeated."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from zlib import crc32

import httpx
import polars as pl
import pytest
from hypothesis import assume, given, strategies as st

from gateway_sdk import (
    Advice,
    GatewayError,
    GatewaySession,
    InvalidArgumentError,
    JournalError,
    Outcome,
    bulk,
)
from gateway_sdk.bulk._journal import index
from tests.bulk.journal.journals import JOB, fetch, lines, refused

ITEMS = ["one", "two", "three", "four"]
BOM = b"\xef\xbb\xbf"


async def rate(item: str) -> Any:
    return {"rate": 1.0625, "of": item}


class Customers(httpx.AsyncBaseTransport):
    """Creates customers, and counts how often each was created."""

    def __init__(self) -> None:
        self.created: list[str] = []

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        body = b"".join([piece async for piece in request.stream])  # type: ignore[union-attr]
        self.created.append(json.loads(body)["customerName"])
        return httpx.Response(200, json={"customerId": "c-1"})

    async def create(self, path: Path, items: list[str], **options: Any) -> dict[str, Any]:
        """Run over the items with a journal."""
        async with GatewaySession(
            "https://gateway.test", access_token="t", tenant_id="acme", transport=self
        ) as gateway:

            async def call(name: str) -> Any:
                return await gateway.customer.create_customer({"customerName": name})

            return await fetch(path, items, call, **options)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """Provide a journal of reads, with one line each."""
    path = tmp_path_factory.mktemp("whole") / "journal.jsonl"
    asyncio.run(fetch(path, ITEMS, rate, concurrency=1))
    return path.read_bytes()


@pytest.fixture(scope="module")
def writes(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """Provide a journal of writes: one that was compacted, and two that were not."""
    path = tmp_path_factory.mktemp("writes") / "journal.jsonl"
    asyncio.run(Customers().create(path, ITEMS[:2], concurrency=1))
    asyncio.run(Customers().create(path, ITEMS, concurrency=1))
    found = path.read_bytes()
    states = [line["state"] for line in lines(path)]
    assert states == ["done", "done", "begun", "done", "begun", "done"]
    return found


def hole(text: bytes) -> bytes:
    """Put zeros from the middle of the second line to that of the third."""
    ends = [at for at, byte in enumerate(text) if byte == ord("\n")]
    begin, end = ends[0] + 150, ends[1] + 150
    return text[:begin] + bytes(end - begin) + text[end:]


def second(change: Callable[[bytes], bytes]) -> Callable[[bytes], bytes]:
    def changed(text: bytes) -> bytes:
        parts = text.splitlines(keepends=True)
        return b"".join([parts[0], change(parts[1]), *parts[2:]])

    return changed


DAMAGES: dict[str, tuple[Callable[[bytes], bytes], str, list[str]]] = {
    "a digit": (second(lambda line: line.replace(b"1.0625", b"1.0725")), "line 2;", ["two"]),
    "a hole": (hole, "line 2;", ["two", "three"]),
    "a key": (second(lambda line: line.replace(b'"key":"', b'"key":"x')), "line 2;", ["two"]),
    "a flag": (second(lambda line: line.replace(b"false", b"falsE", 1)), "line 2;", ["two"]),
    "a bit of its end": (second(lambda line: line[:-1] + b"\x0b"), "line 2;", []),
    "a line break within": (
        second(lambda line: line[:200] + b"\n" + line[201:]),
        "line 2, and 1 more;",
        ["two"],
    ),
    "half a line": (second(lambda line: line[:200] + b"\n"), "line 2;", ["two"]),
    "a blank line": (second(lambda line: b"\n" + line), "line 2;", []),
    "white space": (second(lambda line: b" \t" + line), "line 2;", []),
    "a byte order mark": (lambda text: BOM + text, "line 1;", []),
    "other line ends": (lambda text: text.replace(b"\n", b"\r\n"), "line 1, and 3 more;", []),
    "a line of others": (second(lambda line: b"precious\n" + line), "line 2;", []),
    "an end of others": (lambda text: text + b"precious", "line 5;", []),
    "the end of the last line": (lambda text: text[:-1] + b"x", "line 4;", []),
}


@pytest.mark.parametrize("name", DAMAGES)
async def test_a_damaged_line_is_reported_and_skipped_on_request(
    tmp_path: Path, whole: bytes, name: str
) -> None:
    """Without repair, no file is changed; with it, complete lines stay and the rest is fetched."""
    damage, named, again = DAMAGES[name]
    path, beside = tmp_path / "journal.jsonl", tmp_path / "journal.jsonl.damaged"
    damaged = damage(whole)
    assert damaged != whole
    path.write_bytes(damaged)

    with pytest.raises(JournalError, match="is damaged") as caught:
        await fetch(path, ITEMS, refused)
    assert named in str(caught.value)
    assert "repair=True" in str(caught.value)
    assert path.read_bytes() == damaged
    assert not beside.exists()

    called: list[str] = []

    async def call(item: str) -> Any:
        called.append(item)
        return await rate(item)

    results = await fetch(path, ITEMS, call, repair=True)

    assert sorted(called) == sorted(again)
    assert {item: result.value["rate"] for item, result in results.items()} == dict.fromkeys(
        ITEMS, 1.0625
    )
    kept = beside.read_bytes()
    assert set(kept.splitlines()) <= set(damaged.splitlines())
    assert kept
    assert set(damaged.splitlines()) - set(kept.splitlines()) <= set(path.read_bytes().splitlines())
    assert beside.stat().st_mode & 0o777 == 0o600
    assert len(await fetch(path, ITEMS, refused)) == len(ITEMS)
    states = pl.read_ndjson(path)["state"].to_list()
    assert states.count("done") == len(ITEMS)


async def test_a_journal_that_is_whole_needs_no_repair(tmp_path: Path, whole: bytes) -> None:
    """`repair` changes nothing then."""
    path = tmp_path / "journal.jsonl"
    path.write_bytes(whole)

    await fetch(path, ITEMS, refused, repair=True)

    assert path.read_bytes() == whole
    assert not path.with_name("journal.jsonl.damaged").exists()


@pytest.mark.parametrize("content", [b"precious\n", b"{}\n" * 3, b"\0\0precious\n", b"precious"])
async def test_another_file_is_not_repaired(tmp_path: Path, content: bytes) -> None:
    """With repair too, a wrong path does not destroy a file."""
    path = tmp_path / "journal.jsonl"
    path.write_bytes(content)

    with pytest.raises(JournalError, match="is not a journal: see its line 1"):
        await fetch(path, ITEMS, refused, repair=True)

    assert path.read_bytes() == content
    assert not path.with_name("journal.jsonl.damaged").exists()


async def test_a_damaged_journal_of_another_job_is_not_repaired(
    tmp_path: Path, whole: bytes
) -> None:
    """This holds also if none of its lines is complete."""
    path = tmp_path / "journal.jsonl"
    damaged = whole.splitlines(keepends=True)[0].replace(b"1.0625", b"1.0725")
    path.write_bytes(damaged)

    with pytest.raises(JournalError, match="belongs to the job 'test', not to 'other'"):
        await fetch(path, ITEMS, refused, job="other", repair=True)

    assert path.read_bytes() == damaged


async def test_a_line_of_a_later_version_is_damage(tmp_path: Path, whole: bytes) -> None:
    """Its checksums are right, but columns are missing."""
    path = tmp_path / "journal.jsonl"
    (head, _, rest) = whole.splitlines()[0].partition(b',"check":')
    rest = b',"state":"done"}'
    length = b"%08x" % (len(head) + len(b',"check":"') + 26 + 1 + len(rest) + 1)
    check = b',"check":"%b-%08x-%08x"' % (length, crc32(head + length), crc32(rest))
    path.write_bytes(head + check + rest + b"\n")

    with pytest.raises(JournalError, match="see its line 1"):
        await fetch(path, ITEMS, refused)


async def test_a_journal_is_not_repaired_on_windows(
    tmp_path: Path, whole: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Windows cannot replace an open file: the error says that another system can repair it."""
    monkeypatch.setattr(index, "CAN_REPLACE", False)
    path = tmp_path / "journal.jsonl"
    path.write_bytes(BOM + whole)

    with pytest.raises(JournalError, match="cannot be repaired on Windows"):
        await fetch(path, ITEMS, refused, repair=True)

    assert path.read_bytes() == BOM + whole


async def test_a_link_in_place_of_the_file_beside_is_not_followed(
    tmp_path: Path, whole: bytes
) -> None:
    """It may lead to a file of another user."""
    path, precious = tmp_path / "journal.jsonl", tmp_path / "precious"
    path.write_bytes(BOM + whole)
    precious.write_bytes(b"precious")
    (tmp_path / "journal.jsonl.damaged").symlink_to(precious)

    with pytest.raises(JournalError, match=r"damaged cannot be written: "):
        await fetch(path, ITEMS, refused, repair=True)

    assert precious.read_bytes() == b"precious"
    assert path.read_bytes() == BOM + whole


def test_repair_goes_with_a_journal() -> None:
    """It is refused without one, like the other options of a journal."""
    with pytest.raises(InvalidArgumentError, match="go with journal="):
        bulk.run(refused, ITEMS, repair=True)
    with pytest.raises(InvalidArgumentError, match="repair must be"):
        bulk.run(refused, ITEMS, journal="x", job="x", repair=1)  # type: ignore[arg-type]


async def test_the_write_of_a_damaged_line_is_not_repeated(tmp_path: Path, writes: bytes) -> None:
    """Its head names its item: only that outcome is unknown, and new items are created."""
    path = tmp_path / "journal.jsonl"
    customers = Customers()
    path.write_bytes(writes.replace(b'"customerId":"c-1"', b'"customerId":"c-2"', 1))

    for options in ({"repair": True}, {"retry_failed": True}):
        results = await customers.create(path, [*ITEMS, "new"], **options)

        error = results["one"].error
        assert isinstance(error, GatewayError)
        assert (error.outcome, error.advice) == (Outcome.UNKNOWN, Advice.CHECK)
        assert "the line of this item in the journal was damaged" in str(error)
        assert [results[item].error for item in (*ITEMS[1:], "new")] == [None] * 4
    assert customers.created == ["new"]


async def test_a_lost_line_may_belong_to_any_new_item(tmp_path: Path, writes: bytes) -> None:
    """If a head is damaged, no item without a line is sent, in this run and in later ones."""
    path = tmp_path / "journal.jsonl"
    customers = Customers()
    path.write_bytes(writes.replace(b'"once":true', b'"once":tRue', 1))

    for options in ({"repair": True}, {"retry_failed": True}, {}):
        results = await customers.create(path, [*ITEMS, "new"], **options)

        for item in ("one", "new"):
            error = results[item].error
            assert isinstance(error, GatewayError)
            assert (error.outcome, error.advice) == (Outcome.UNKNOWN, Advice.CHECK)
        assert [results[item].error for item in ITEMS[1:]] == [None] * 3
    assert customers.created == []
    assert [line["state"] for line in lines(path)].count("lost") == 1


async def test_a_line_that_was_blanked_is_a_lost_one(tmp_path: Path, writes: bytes) -> None:
    """White space is ignored, unless it is long enough to have been a line."""
    path = tmp_path / "journal.jsonl"
    customers = Customers()
    first, rest = writes.split(b"\n", 1)
    path.write_bytes(b"\n" * len(first) + b"\n" + rest)

    results = await customers.create(path, ITEMS, repair=True)

    assert customers.created == []
    assert isinstance(results["one"].error, GatewayError)
    assert results["one"].error.outcome is Outcome.UNKNOWN


async def test_reads_go_on_where_a_line_was_lost(tmp_path: Path, whole: bytes) -> None:
    """Reads can be repeated, whether they were made before or not."""
    path = tmp_path / "journal.jsonl"
    path.write_bytes(whole.replace(b'"once":false', b'"once":fAlse', 1))

    results = await fetch(path, [*ITEMS, "new"], rate, repair=True)

    assert [result.error for result in results.values()] == [None] * 5


async def test_a_run_that_ends_before_an_unsure_item_has_a_result_writes_no_line(
    tmp_path: Path, writes: bytes
) -> None:
    """Nothing was sent for it, and the next run comes to the same result."""
    path = tmp_path / "journal.jsonl"
    path.write_bytes(writes.replace(b'"once":true', b'"once":tRue', 1))
    refusal: list[BaseException] = []
    told = asyncio.Event()
    customers = Customers()

    async with GatewaySession(
        "https://gateway.test", access_token="t", tenant_id="acme", transport=customers
    ) as gateway:

        async def call(name: str) -> None:
            try:
                await gateway.customer.create_customer({"customerName": name})
            except JournalError as error:
                refusal.append(error)
            told.set()
            await asyncio.Event().wait()

        run = bulk.run(call, ["new"], journal=path, job=JOB, repair=True)
        first = asyncio.ensure_future(anext(run))
        await told.wait()
        first.cancel()
        await asyncio.wait([first])

    assert "a damaged line may say" in str(refusal[0])
    assert customers.created == []
    assert "new" not in [line["item"] for line in lines(path)]


@st.composite
def scratches(draw: st.DrawFn, size: int) -> tuple[int, bytes]:
    """Return bytes to write over others, and their position in the file."""
    begin = draw(st.integers(0, size - 2))
    length = draw(st.sampled_from([1, 2, 40, 400, 700]))
    end = min(size - 1, begin + length)
    fill = draw(st.sampled_from([b"\0", b"\n", b"x", b"\xff", b"0", b'"', b"}\n{"]))
    return begin, (fill * (end - begin))[: end - begin]


@given(data=st.data())
def test_no_damage_repeats_a_write(
    tmp_path_factory: pytest.TempPathFactory, writes: bytes, data: st.DataObject
) -> None:
    """In any place and of any length: a customer that was created is not created again."""
    path = tmp_path_factory.mktemp("scratched") / "journal.jsonl"
    begin, scratch = data.draw(scratches(len(writes)))
    path.write_bytes(writes[:begin] + scratch + writes[begin + len(scratch) :])
    customers = Customers()

    for options in ({"repair": True}, {"retry_failed": True}):
        asyncio.run(customers.create(path, ITEMS, **options))

    assert customers.created == []


@given(data=st.data())
def test_no_damaged_value_is_yielded(
    tmp_path_factory: pytest.TempPathFactory, whole: bytes, data: st.DataObject
) -> None:
    """Every result belongs to its item, from the journal or fetched again."""
    path = tmp_path_factory.mktemp("scratched") / "journal.jsonl"
    begin, scratch = data.draw(scratches(len(whole)))
    assume(begin + len(scratch) < whole.rindex(b'{"job"'))  # else it may be no journal any more
    path.write_bytes(whole[:begin] + scratch + whole[begin + len(scratch) :])

    results = asyncio.run(fetch(path, ITEMS, rate, repair=True))

    assert {item: result.value for item, result in results.items()} == {
        item: {"rate": 1.0625, "of": item} for item in ITEMS
    }
