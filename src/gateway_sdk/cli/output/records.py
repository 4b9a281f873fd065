"""Finding a table in a reply of which the interface says nothing. Pure."""

from typing import Any

from gateway_sdk.cli.output.table import Table
from gateway_sdk.cli.output.values import to_cell


def find_records(reply: Any) -> tuple[Table, str] | None:
    """Find the common shape: a list of objects, alone or under a name beside single values.

    Returns:
        The table, with a column for every name that any of the objects has; and the single
        values, in words. None if the reply is of another shape.
    """
    records, beside = _taken_apart(reply)
    if records is None or not all(isinstance(record, dict) for record in records):
        return None
    if any(isinstance(value, dict) for value in beside.values()):
        return None
    names = list(dict.fromkeys(name for record in records for name in record))
    rows = [[record.get(name) for name in names] for record in records]
    return Table(names, rows), ", ".join(f"{name} {to_cell(beside[name])}" for name in beside)


def _taken_apart(reply: Any) -> tuple[list[dict[str, Any]] | None, dict[str, Any]]:
    """Part the only list of a reply from what stands beside it."""
    if not isinstance(reply, dict):
        return (reply, {}) if isinstance(reply, list) else (None, {})
    lists = [name for name, value in reply.items() if isinstance(value, list)]
    if len(lists) != 1:
        return None, {}
    return reply[lists[0]], {name: reply[name] for name in reply if name != lists[0]}
