from collections.abc import Callable
from typing import Any

import pytest
import typer

from gateway_sdk.cli.bulk.options import (
    parse_concurrency,
    parse_seconds,
    parse_span,
    parse_symbols,
)

Parse = Callable[[str], Any]


@pytest.mark.parametrize(
    ("parse", "text", "value"),
    [
        (parse_span, "30d", 30),
        (parse_span, " 6W ", 42),
        (parse_seconds, "600", 600.0),
        (parse_seconds, "0.5", 0.5),
        (parse_concurrency, "1", 1),
        (parse_concurrency, "9999", 9999),
        (parse_concurrency, "adaptive", "adaptive"),
        (parse_symbols, "USD, GBP", ["USD", "GBP"]),
        (parse_symbols, "USD,USD", ["USD"]),
        (parse_symbols, "all", None),
        (parse_symbols, "ALL", ["ALL"]),
        (parse_symbols, "ALL,USD", ["ALL", "USD"]),
    ],
)
def test_options_are_read(parse: Parse, text: str, value: Any) -> None:
    """As the help writes them; ALL is Albania's money, and only all is all."""
    assert parse(text) == value


@pytest.mark.parametrize(
    ("parse", "text", "words"),
    [
        *((parse_span, text, "30d or 6w") for text in ("", "30", "0d", "1m", "-1d", "1.5d", "²d")),
        *((parse_seconds, text, "600") for text in ("", "x", "0", "-1", "nan", "inf", "10m")),
        *((parse_concurrency, text, "adaptive") for text in ("", "0", "-1", "1.5", "10000", "²")),
        (parse_symbols, "", "no currency"),
        (parse_symbols, "all,USD", "stands alone"),
    ],
)
def test_what_is_no_option_is_refused(parse: Parse, text: str, words: str) -> None:
    """The message shows how one is written."""
    with pytest.raises(typer.BadParameter, match=words):
        parse(text)
