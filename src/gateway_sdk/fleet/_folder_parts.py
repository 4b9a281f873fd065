"""The files of results in a folder: one for each chunk, which may be replaced by a better one."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from gateway_sdk.fleet._folder_files import Files
from gateway_sdk.fleet._parquet import from_parquet, to_parquet
from gateway_sdk.fleet._store import ItemRecord, PlanRecord, State
from gateway_sdk.outcome import Advice

DONE: Final = "done.parquet"
"""All items of the chunk are done."""
FAILED: Final = "failed.parquet"
"""All items of the chunk are done or failed."""
REST: Final = "rest.parquet"
"""What is left of a chunk whose failures were forgotten, until they are done."""

_KINDS: Final = (DONE, FAILED, REST)
"""The best comes first: a slow twin may leave one of the others beside it."""

_NUMBER: Final = re.compile(r"[0-9]{8,}", re.ASCII)


def folder_of(plan: PlanRecord) -> str:
    return f"{plan.name}/results/{plan.id}"


def is_chunk(number: str) -> bool:
    """Tell whether a name begins as those of the store; others may put files beside them."""
    return _NUMBER.fullmatch(number) is not None


def parts_of(files: Files, plan: PlanRecord) -> Iterator[tuple[int, str]]:
    """Yield the chunks that have a file, each once, with the kind of the best one."""
    best: dict[int, str] = {}
    for name in files.names(folder_of(plan)):
        number, _, kind = name.partition(".")
        if kind in _KINDS and is_chunk(number):
            chunk = int(number)
            best[chunk] = min(best.get(chunk, kind), kind, key=_KINDS.index)
    yield from sorted(best.items())


def read_part(files: Files, plan: PlanRecord, chunk: int) -> dict[int, ItemRecord]:
    for kind in _KINDS:
        data = files.read(f"{folder_of(plan)}/{chunk:08}.{kind}")
        if data is not None:
            return {record.index: record for record in from_parquet(data)}
    return {}


def add_results(files: Files, plan: PlanRecord, chunk: int, records: Sequence[ItemRecord]) -> None:
    before = read_part(files, plan, chunk)
    known = {record.index: record for record in records} | before
    is_whole = len(known) == len(plan.indexes(chunk))
    is_done = all(record.state is State.DONE for record in known.values())
    kind = (DONE if is_done else FAILED) if is_whole else REST
    _write(files, plan, chunk, kind, known)
    if before:
        for worse in _KINDS[_KINDS.index(kind) + 1 :]:
            files.remove(f"{folder_of(plan)}/{chunk:08}.{worse}")


def _write(
    files: Files, plan: PlanRecord, chunk: int, kind: str, records: Mapping[int, ItemRecord]
) -> None:
    data = to_parquet([records[index] for index in sorted(records)])
    files.write(f"{folder_of(plan)}/{chunk:08}.{kind}", data)


def forget_all(files: Files, plan: PlanRecord) -> int:
    """Leave out failures that are safe to repeat, and return their number."""
    forgotten = 0
    for chunk, kind in list(parts_of(files, plan)):
        if kind == DONE:
            continue
        before = read_part(files, plan, chunk)
        kept = {
            i: one
            for i, one in before.items()
            if one.failure is None or one.failure.advice is Advice.CHECK
        }
        if len(kept) < len(before):
            if kept:
                _write(files, plan, chunk, REST, kept)
            files.remove(f"{folder_of(plan)}/{chunk:08}.{FAILED}")
            forgotten += len(before) - len(kept)
    return forgotten
