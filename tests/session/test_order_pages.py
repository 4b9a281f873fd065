"""The pages of the order history, up to an empty one."""

import json
from collections.abc import Callable
from typing import Any

import httpx
import pytest
from pydantic import BaseModel

from gateway_sdk import GatewaySession, InvalidArgumentError, UnexpectedReplyError
from gateway_sdk.outcome import Outcome


def replying(*pages: Any) -> tuple[GatewaySession, list[int]]:
    asked: list[int] = []

    def reply(request: httpx.Request) -> httpx.Response:
        asked.append(json.loads(request.content)["page"])
        page = pages[len(asked) - 1]
        return httpx.Response(200, json=page) if page is not None else httpx.Response(204)

    session = GatewaySession(
        "https://gateway.test", access_token="t", transport=httpx.MockTransport(reply)
    )
    return session, asked


@pytest.mark.parametrize("first", [1, 0])
@pytest.mark.parametrize(
    ("make", "end"),
    [
        (lambda orders: orders, []),
        (lambda orders: {"orders": orders, "total": 3}, {"orders": [], "total": 3}),
        (lambda orders: orders, None),
        (lambda orders: {"orders": orders}, {"orders": None}),
    ],
)
async def test_pages_end_at_an_empty_one(
    make: Callable[[list[int]], Any], end: Any, first: int
) -> None:
    session, asked = replying(make([1, 2]), make([3]), end)

    async with session as gateway:
        pages = [page async for page in gateway.wallet.order_history_pages(2, first_page=first)]

    assert pages == [make([1, 2]), make([3])]
    assert asked == [first, first + 1, first + 2]


@pytest.mark.parametrize(
    ("pages", "words"),
    [
        ([{"a": [], "b": []}], "or several lists"),
        ([{"total": 3}], "no list of orders"),
        ([{"orders": None}], "no list of orders"),
        ([{"orders": [1]}, {"error": None}], "no list of orders"),
        ([{"data": [1], "error": None}, {"data": None, "error": {}}], "no list of orders"),
        ([{"data": [1]}, {"data": None, "errors": ["late"]}], "no list of orders"),
        (["text"], "no list of orders"),
        ([[1], [1]], "the same page twice"),
    ],
)
async def test_end_that_cannot_be_told_is_an_error(pages: list[Any], words: str) -> None:
    session, _ = replying(*pages)

    async with session as gateway:
        with pytest.raises(UnexpectedReplyError, match=words) as caught:
            _ = [page async for page in gateway.wallet.order_history_pages()]

    assert caught.value.operation == "order_history"
    assert caught.value.status == 200
    assert caught.value.body
    assert caught.value.outcome is Outcome.APPLIED


class Orders(BaseModel):
    orders: list[int]


async def test_pages_take_the_options_of_the_operation() -> None:
    """An empty page, at which they end, need not be of the type."""
    seen: list[str | None] = []

    def reply(request: httpx.Request) -> httpx.Response:
        seen.append(request.headers.get("X-Trace"))
        return httpx.Response(200, json={"orders": [1, 2]} if len(seen) == 1 else [])

    async with GatewaySession(
        "https://gateway.test", access_token="t", transport=httpx.MockTransport(reply)
    ) as gateway:
        history = gateway.wallet.order_history_pages
        pages = [page async for page in history(into=Orders, headers={"X-Trace": "1"}, deadline=9)]

        assert pages == [Orders(orders=[1, 2])]
        assert seen == ["1", "1"]
        wrong: Any
        for wrong in ({"into": 5}, {"deadline": 0}, {"dead_line": 5}, {"take": "all"}):
            with pytest.raises(InvalidArgumentError):
                _ = [page async for page in history(**wrong)]
    assert len(seen) == 2


@pytest.mark.parametrize("page", [[1], {"orders": ["one"]}])
async def test_a_page_that_is_not_of_the_type_is_an_error(page: Any) -> None:
    session, _ = replying(page)

    async with session as gateway:
        with pytest.raises(UnexpectedReplyError, match="does not fit") as caught:
            _ = [page async for page in gateway.wallet.order_history_pages(into=Orders)]

    assert (caught.value.operation, caught.value.status) == ("order_history", 200)
    assert caught.value.outcome is Outcome.APPLIED
    assert len(caught.value.attempts) == 1
    assert caught.value.problems
