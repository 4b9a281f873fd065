"""Each rate is written once, the newest: whatever the shape of items, and in whatever order."""

import csv
import json
from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import pytest
from hypothesis import given, strategies as st

from gateway_sdk import bulk
from gateway_sdk.bulk import Entry, State
from tests.bulk.runs import insert, room_for

FIRST = date(2026, 1, 1)
BEGAN = datetime(2026, 2, 1, tzinfo=UTC)


class Series(NamedTuple):
    """What was asked for: some symbols, from one day to another."""

    base: str
    symbols: Sequence[str]
    first: date
    last: date


def shapes(of: Series) -> dict[str, Any]:
    """Write the same item in the shapes that users have."""
    days = {"start_date": str(of.first), "end_date": str(of.last)}
    what = {"base": of.base, "symbols": ",".join(of.symbols)}
    return {
        "what first": {**what, **days},
        "days first": {**days, **what},
        "on the wire": {"startDate": str(of.first), **what, "endDate": str(of.last)},
        "own names": {"from": str(of.first), "to": str(of.last), **what, "tag": str(of.first)},
        "tuple": [of.base, *of.symbols, str(of.first), str(of.last)],
        "nested": {"query": {**days, **what}},
        "number": 7,
    }


def reply(of: Series, rate: int, *, base: str | None) -> dict[str, Any]:
    days = range((of.last - of.first).days + 1)
    rates = {str(of.first + timedelta(days=day)): dict.fromkeys(of.symbols, rate) for day in days}
    return {"rates": rates} if base is None else {"base": base, "rates": rates}


SERIES = st.builds(
    lambda base, symbols, days: Series(base, symbols, *sorted(days)),
    st.sampled_from(["EUR", "USD"]),
    st.lists(st.sampled_from(["GBP", "JPY", "CHF"]), min_size=1, unique=True),
    st.tuples(*[st.integers(0, 4).map(lambda day: FIRST + timedelta(days=day))] * 2),
)
TIMES = st.none() | st.integers(0, 3).map(lambda seconds: BEGAN + timedelta(seconds=seconds))


def entry(number: int, item: Any, value: Any, time: datetime | None) -> Entry:
    return Entry(
        key=number.to_bytes(16, "big"),
        state=State.DONE,
        item=json.dumps(item),
        value=json.dumps(value),
        time=time,
    )


def read(out: Path) -> list[tuple[str, ...]]:
    with out.open(newline="", encoding="utf-8") as file:
        return [tuple(row) for row in csv.reader(file)][1:]


@given(asked=st.lists(st.tuples(SERIES, st.randoms(use_true_random=False), TIMES), max_size=12))
def test_each_rate_once_the_newest(asked: Any) -> None:
    """Of the same time, or without one, the later row counts; without a time it is the oldest."""
    entries, expected = [], dict[tuple[str, ...], tuple[datetime, int]]()
    for number, (series, chance, time) in enumerate(asked, 1):
        item = chance.choice([*shapes(series).values()])
        may_be_silent = isinstance(item, dict) and "base" in item
        named = None if may_be_silent and chance.random() < 0.5 else series.base
        value = reply(series, number, base=named)
        entries.append(entry(number, item, value, time))
        for day, quotes in value["rates"].items():
            for symbol in quotes:
                key, rank = (series.base, symbol, day), time or datetime.min.replace(tzinfo=UTC)
                if key not in expected or expected[key][0] <= rank:
                    expected[key] = rank, number
    wanted = [(*key, str(number)) for key, (_, number) in sorted(expected.items())]

    with TemporaryDirectory() as folder:
        out, journal = Path(folder, "rates.csv"), Path(folder, "journal.db")
        insert(journal, entries)

        assert bulk.export(journal, out, rates=True).rows == len(wanted)
        assert read(out) == wanted


def test_items_that_are_no_json_are_told_apart_by_their_keys(tmp_path: Path) -> None:
    value = json.dumps(reply(Series("EUR", ["GBP"], FIRST, FIRST), 1, base=None))
    entries = [Entry(key=key, state=State.DONE, value=value) for key in (b"1", b"2")]

    insert(tmp_path / "journal.db", entries)

    assert bulk.export(tmp_path / "journal.db", tmp_path / "rates.csv").rows == 2


@pytest.mark.parametrize("shape", [*shapes(Series("EUR", "U", FIRST, FIRST))][:-1])
def test_items_without_a_base_anywhere_are_told_apart(tmp_path: Path, shape: str) -> None:
    """Overlapping days are one series, and no rate of another one is lost."""
    entries = []
    for base in ("EUR", "USD"):
        for number, days in enumerate([(0, 2), (1, 3)], 1 if base == "EUR" else 3):
            series = Series(base, ["GBP"], *(FIRST + timedelta(days=day) for day in days))
            item = shapes(series)[shape]
            item.pop("base", None) if isinstance(item, dict) else None
            item = {**item, "of": base} if isinstance(item, dict) else item
            entries.append(entry(number, item, reply(series, number, base=None), BEGAN))

    insert(tmp_path / "journal.db", entries)

    bulk.export(tmp_path / "journal.db", tmp_path / "rates.csv")

    found = [row[1:] for row in read(tmp_path / "rates.csv")]
    assert found == [
        ("GBP", f"2026-01-0{day}", str(number))
        for first, second in ((1, 2), (3, 4))
        for day, number in ((1, first), (2, second), (3, second), (4, second))
    ]


@pytest.mark.posix
def test_no_room_for_the_temporary_file_is_told(tmp_path: Path) -> None:
    """It is not the journal's fault, and nothing is left of the file."""
    out, series = tmp_path / "rates.csv", Series("EUR", "U", FIRST, FIRST + timedelta(days=999))
    entries = (
        entry(number, number, reply(series._replace(symbols=[f"S{number}"]), 1, base="EUR"), None)
        for number in range(99)
    )

    insert(tmp_path / "journal.db", entries)

    with room_for(10_000), pytest.raises(OSError, match="no room for a temporary file"):
        bulk.export(tmp_path / "journal.db", out)

    assert [it.name for it in tmp_path.iterdir()] == ["journal.db"]


@pytest.mark.parametrize("state", State)
def test_an_item_has_a_row_in_each_state(tmp_path: Path, state: State) -> None:
    journal = tmp_path / "journal.db"
    insert(
        journal,
        [Entry(key=b"1", state=state, item="1", value="2" if state is State.DONE else None)],
    )

    written = bulk.export(journal, tmp_path / "items.csv", rates=False)

    assert written == bulk.Exported(1, state is not State.DONE)
    assert bulk.export(journal, tmp_path / "rates.ndjson", rates=True).rows == 0
    assert [row[1] for row in read(tmp_path / "items.csv")] == [state]
