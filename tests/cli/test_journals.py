"""The commands `gateway bulk unknown` and `gateway bulk settle`."""

import asyncio
import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest

from tests.bulk.journal.test_settle import create, decisions, plain
from tests.cli.support import Call

ITEMS = [plain("Ada"), plain("Bob")]


def leave_unknown(journal: Path) -> None:
    """Leave the journal of a run behind in which the reply about Ada was lost."""
    asyncio.run(create(journal, ITEMS, loses="Ada"))


@pytest.fixture
def journal(tmp_path: Path) -> Path:
    leave_unknown(tmp_path / "run.db")
    return tmp_path / "run.db"


def test_unknown_items_are_listed(call_gateway: Call, journal: Path) -> None:
    lines = call_gateway("bulk", "unknown", journal)
    as_csv = call_gateway("bulk", "unknown", journal, "--csv")
    as_json = call_gateway("bulk", "unknown", journal, "--json")

    (found,) = json.loads(as_json.out)
    assert found.keys() == {"key", "item", "state", "operation", "time"}
    assert (found["item"], found["state"]) == (ITEMS[0], "unknown")
    assert found["operation"] == "create_customer"
    (row,) = csv.DictReader(io.StringIO(as_csv.out))
    assert json.loads(row["item"]) == found["item"]
    assert lines.out.splitlines()[1].split("\t")[0] == row["key"] == found["key"]
    assert [it.status for it in (lines, as_csv, as_json)] == [0, 0, 0]


@pytest.mark.parametrize(
    ("options", "given", "said", "value"),
    [
        (("--done", "reply.json"), "", "It is settled: later runs have this reply.\n", {"id": 7}),
        (("--done", "-"), "null", "It is settled: later runs have this reply.\n", None),
        (("--not-done",), "", "The next run makes it.\n", {"customerId": "c-1"}),
    ],
)
def test_item_is_settled(
    call_gateway: Call,
    journal: Path,
    monkeypatch: pytest.MonkeyPatch,
    options: tuple[str, ...],
    given: str,
    said: str,
    value: Any,
) -> None:
    monkeypatch.chdir(journal.parent)
    Path("reply.json").write_bytes('{"id": 7}'.encode("utf-16"))
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(given.encode())))
    (found,) = json.loads(call_gateway("bulk", "unknown", journal, "--json").out)

    settled = call_gateway("bulk", "settle", journal, found["key"], *options)
    again = call_gateway("bulk", "settle", journal, found["key"], "--not-done")
    left = call_gateway("bulk", "unknown", journal)

    assert (settled.status, settled.err) == (0, said)
    is_open = "--not-done" in options  # until a run begins it
    refused = f"gateway: the journal {journal} has no item with this key whose outcome is unknown\n"
    assert (again.status, again.err) == ((0, said) if is_open else (2, refused))
    assert (left.status, left.err) == (0, "The list is empty.\n")
    result, sent = asyncio.run(create(journal, ITEMS))
    assert (result.value, len(sent)) == (value, is_open)
    assert len(decisions(journal)) == 1 + is_open
