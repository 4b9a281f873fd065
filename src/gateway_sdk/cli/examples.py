"""What stands below the help of a command: examples, all of which work as they stand."""

from typing import Final


def _examples(*lines: str) -> str:
    """Set examples for the help: one each line, and nothing is taken for markup."""
    # Two spaces at the end of a line break it there, in Markdown.
    return "  \n".join(("Examples:", *(f"`{line}`" for line in lines)))


COUNTRIES: Final = _examples(
    "gateway countries",
    "gateway countries austria --sandbox",
    "gateway countries EUR --csv > euro.csv",
    "gateway countries --json | jq '.[].countryName'",
)

RATES: Final = _examples(
    "gateway rates EUR USD --sandbox --start 2026-10-01",
    "gateway rates EUR USD,GBP --start 1m --end yesterday --csv > rates.csv",
    "gateway rates EUR USD JPY --start 1y --plot",
    "gateway rates EUR USD --start 2026-01-01 --png usd.png --parquet usd.parquet",
)
