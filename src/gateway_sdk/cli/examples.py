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
    "gateway rates EUR USD JPY --start 2026-01-01 --end 2026-10-30 --plot",
    "gateway rates EUR USD --start 2026-01-01 --png usd.png --parquet usd.parquet",
)

BULK_RATES: Final = _examples(
    "gateway bulk rates --base EUR --symbols USD,GBP --start 1m --out rates.jsonl",
    "gateway bulk rates --base EUR,USD --symbols JPY,GBP --start 2024-01-01 --split 90d"
    " --out rates.jsonl --rows rates.csv --sandbox",
    "gateway bulk rates --base EUR --symbols USD --start 1999-01-04 --out usd.jsonl --retry-failed",
)

CUSTOMER_CREATE: Final = _examples(
    "gateway customer create ada.json",
    "gateway customer create - < ada.json",
    "gateway customer create ada.json --sandbox",
)

CUSTOMER_REVISE: Final = _examples(
    "gateway customer revise customer-0001 customerStatus=active categorization=vip",
    "gateway customer revise customer-0001 changes.json",
)

WALLET_ORDERS: Final = _examples(
    "gateway wallet orders --take 5",
    "gateway wallet orders --page 2 --csv > orders.csv",
    "gateway wallet orders --sandbox | cut -f1,8",
)

WALLET_HISTORY: Final = _examples(
    "gateway wallet history customer-0001",
    "gateway wallet history customer-0001 --json | jq '.orders[].status'",
)

WALLET_BALANCE: Final = _examples(
    "gateway wallet balance",
    "gateway wallet balance --csv > balance.csv",
)

WALLET_CANCEL: Final = _examples(
    "gateway wallet cancel wallet-0004 order-0056",
    "gateway wallet cancel wallet-0004 order-0056 --yes --sandbox",
)

DOCUMENT_UPLOAD: Final = _examples(
    "gateway document upload passport.pdf",
    "gateway document upload passport.bin --content-type application/pdf",
    "gateway document upload - < passport.pdf",
)

DOCUMENT_UPDATE: Final = _examples("gateway document update document-0001 passport.pdf")

DOCUMENT_STATUS: Final = _examples(
    "gateway document status document-0001 approved",
    "gateway document status document-0001 --file status.json",
)

WEBHOOK: Final = _examples(
    "gateway webhook",
    "gateway webhook event.json --sandbox",
)
