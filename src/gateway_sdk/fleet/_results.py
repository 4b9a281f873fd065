"""The results of a plan, for `bulk.write_results`; reads blocks of them, in a thread."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import psycopg

from gateway_sdk import bulk
from gateway_sdk.fleet._database import unusable

_BLOCK: Final = 2000
"""Items that are read at a time, at least one chunk."""

# The columns are those of `bulk.export`; `time` is not kept.
_ROWS: Final = """
select e.item::text, coalesce(r.state, 'missing'), r.value::text, r.failure->>'error',
  r.failure->>'message', r.failure->>'operation', r.failure->>'outcome',
  (r.failure->>'status')::int, r.failure->>'advice', r.attempts, r.elapsed, null
from gateway_fleet.part a
cross join json_array_elements(a.items) with ordinality as e(item, place)
left join gateway_fleet.result r
  on r.plan = a.plan and r.n = a.number::bigint * %(size)s + e.place - 1
where a.plan = %(plan)s and a.number >= %(low)s and a.number < %(high)s
order by a.number, e.place
"""


class PlanResults:
    def __init__(self, connection: psycopg.Connection[Any], plan: tuple[int, int, int]) -> None:
        self._plan, self._size, items = plan
        self._connection = connection
        self._chunks = -(-items // self._size)

    def rows(self) -> Iterator[Sequence[Any]]:
        step = max(1, _BLOCK // self._size)
        for low in range(0, self._chunks, step):
            args = {"plan": self._plan, "size": self._size, "low": low, "high": low + step}
            yield from self._connection.execute(_ROWS, args)

    def values(self) -> Iterator[tuple[str | None, str | None]]:
        return ((row[0], row[2]) for row in self.rows() if row[1] == "done")


def write_plan_results(address: str, name: str, out: Path, *, rates: bool | None) -> bulk.Exported:
    """Write the results of a plan that exists into a file; blocks."""
    try:
        with psycopg.connect(address) as connection:
            # One snapshot: workers may go on meanwhile.
            connection.execute("set transaction isolation level repeatable read, read only")
            found = connection.execute(
                "select id, size, items from gateway_fleet.plan where name = %s", [name]
            ).fetchone()
            results = PlanResults(connection, found or (0, 1, 0))
            return bulk.write_results(results, out, rates=rates)
    except psycopg.Error as error:
        raise unusable(error) from None
