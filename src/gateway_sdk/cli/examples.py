"""What stands below the help of a command: examples, all of which work as they stand."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

EXAMPLES: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "countries": (
            "gateway countries",
            "gateway countries austria --sandbox",
            "gateway countries EUR --csv > euro.csv",
            "gateway countries --json | jq '.[].countryName'",
        ),
        "rates": (
            "gateway rates EUR USD --sandbox --start 2026-10-01",
            "gateway rates EUR USD,GBP --start 1m --end yesterday --csv > rates.csv",
            "gateway rates EUR USD JPY --start 2026-01-01 --end 2026-10-30 --plot",
            "gateway rates EUR USD --start 2026-01-01 --png usd.png --parquet usd.parquet",
        ),
        "bulk rates": (
            "gateway bulk rates --base EUR --symbols USD,GBP --start 1m --out rates.jsonl",
            "gateway bulk rates --base EUR --symbols USD --start 1y --split 9w --out usd",
            "gateway bulk rates --base EUR --symbols all --start 1w --out all.jsonl",
        ),
        "customer example": ("gateway customer example > ada.json",),
        "customer create": (
            "gateway customer create ada.json",
            "gateway customer create - < ada.json",
            "gateway customer create ada.json --sandbox",
        ),
        "customer revise": (
            "gateway customer revise customer-0001 customerStatus=active",
            "gateway customer revise customer-0001 changes.json",
        ),
        "wallet orders": (
            "gateway wallet orders --take 5",
            "gateway wallet orders --page 2 --csv > orders.csv",
            "gateway wallet orders --sandbox | cut -f1,8",
        ),
        "wallet history": (
            "gateway wallet history customer-0001",
            "gateway wallet history customer-0001 --json | jq '.orders[].status'",
        ),
        "wallet balance": (
            "gateway wallet balance",
            "gateway wallet balance --csv > balance.csv",
        ),
        "wallet cancel": (
            "gateway wallet cancel wallet-0004 order-0056",
            "gateway wallet cancel wallet-0004 order-0056 --yes --sandbox",
        ),
        "document upload": (
            "gateway document upload passport.pdf",
            "gateway document upload passport.bin --content-type application/pdf",
            "gateway document upload - < passport.pdf",
        ),
        "document update": ("gateway document update document-0001 passport.pdf",),
        "document status": (
            "gateway document status document-0001 approved",
            "gateway document status document-0001 --file status.json",
        ),
        "webhook": (
            "gateway webhook",
            "gateway webhook event.json --sandbox",
        ),
    }
)


def epilog_of(command: str) -> str | None:
    """Set the examples of a command for its help, one each line."""
    if command not in EXAMPLES:
        return None
    # After "\b" click leaves the lines of a paragraph as they are.
    return "\n".join(("\b", "Examples:", *(f"  {line}" for line in EXAMPLES[command])))
