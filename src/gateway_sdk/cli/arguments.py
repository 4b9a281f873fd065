"""Currencies, days, spans and numbers as people type them. Today is that of UTC."""

import re
from calendar import monthrange
from collections.abc import Iterable
from datetime import UTC, date, datetime, timedelta
from typing import Annotated, Any, Final, Literal, TypeAlias

import typer

FORMATS: Final = "2026-01-31, today, yesterday, or a time before today: 10d, 6w, 3m, 1y"
ALL: Final = "all"  # in small letters: ALL is the code of the Albanian lek
CURRENCIES: Final = """
AED AFN ALL AMD AOA ARS AUD AWG AZN BAM BBD BDT BHD BIF BMD BND BOB BRL BSD BTN BWP BYN BZD CAD CDF
CHF CLP CNY COP CRC CUP CVE CZK DJF DKK DOP DZD EGP ERN ETB EUR FJD FKP GBP GEL GHS GIP GMD GNF GTQ
GYD HKD HNL HTG HUF IDR ILS INR IQD IRR ISK JMD JOD JPY KES KGS KHR KMF KPW KRW KWD KYD KZT LAK LBP
LKR LRD LSL LYD MAD MDL MGA MKD MMK MNT MOP MRU MUR MVR MWK MXN MYR MZN NAD NGN NIO NOK NPR NZD OMR
PAB PEN PGK PHP PKR PLN PYG QAR RON RSD RUB RWF SAR SBD SCR SDG SEK SGD SHP SLE SOS SRD SSP STN SYP
SZL THB TJS TMT TND TOP TRY TTD TWD TZS UAH UGX USD UYU UZS VES VND VUV WST XAF XCD XOF XPF YER ZAR
ZMW
"""
"""ISO 4217, as shells complete them; a gateway may have others."""

_CODE: Final = re.compile(r"[a-z]{3}")
_AGO: Final = re.compile(r"([0-9]{1,5})([dwmy])")
_DAYS: Final = {"d": 1, "w": 7}
_MONTHS: Final = {"m": 1, "y": 12}

GIVEN: Final[dict[str, Any]] = {}
"""The options for every command, such as "base_url", as this process has got them."""


def split_codes(words: Iterable[str]) -> list[str]:
    codes = [code for word in words for code in word.replace(",", " ").split()]
    if not codes:
        raise typer.BadParameter("no currency is named: write them as USD,GBP")
    # Capitals as in ISO 4217. Anything else is left as it is: the interface gives no format.
    return list(dict.fromkeys(code.upper() if _CODE.fullmatch(code) else code for code in codes))


def complete_codes(incomplete: str) -> list[str]:
    """Complete the code behind the last comma, in small letters if it was begun so."""
    before, comma, code = incomplete.rpartition(",")
    known = CURRENCIES.lower() if code.islower() else CURRENCIES
    return [before + comma + it for it in known.split() if it.startswith(code)]


def parse_symbols(text: str) -> list[str] | None:
    words = text.replace(",", " ").split()
    if words == [ALL]:
        return None
    if ALL in words:
        raise typer.BadParameter(f"{ALL!r} must stand alone", param_hint="--symbols")
    return split_codes(words)


def parse_day(text: str) -> date:
    try:
        return day_of(text, datetime.now(UTC).date())
    except (ValueError, OverflowError):  # the latter for a day before the year 1
        raise typer.BadParameter(f"{text!r} is not a day: write {FORMATS}") from None


def day_of(text: str, today: date) -> date:
    word = text.strip().lower()
    if word in ("today", "yesterday"):
        return today - timedelta(days=word == "yesterday")
    if not (ago := _AGO.fullmatch(word)):
        # Not fromisoformat: it also takes 20260131 and 2026-W05-6, which may be typing errors.
        return datetime.strptime(word, "%Y-%m-%d").replace(tzinfo=UTC).date()
    count, unit = int(ago[1]), ago[2]
    if unit in _DAYS:
        return today - timedelta(days=count * _DAYS[unit])
    year, month = divmod(today.year * 12 + today.month - 1 - count * _MONTHS[unit], 12)
    # In a shorter month, the last day stands for the 31st.
    return date(year, month + 1, min(today.day, monthrange(year, month + 1)[1]))


def parse_span(text: str) -> int:
    span = _AGO.fullmatch(text.strip().lower())
    days = int(span[1]) * _DAYS.get(span[2], 0) if span else 0
    if not days:
        raise typer.BadParameter(f"{text!r} is not a number of days: write 30d or 6w")
    return days


def parse_concurrency(text: str) -> int | Literal["adaptive"]:
    if text == "adaptive":
        return "adaptive"
    if not text.isdecimal() or not int(text):
        raise typer.BadParameter(f"{text!r} is no number of calls: write 1 or more, or adaptive")
    return int(text)


def option(metavar: str, text: str, **more: Any) -> Any:
    return typer.Option(metavar=metavar, help=text, **more)


def switch(name: str, text: str, *more_names: str, **more: Any) -> Any:
    """Describe an option without a value and without an opposite."""
    return typer.Option(name, *more_names, help=text, **more)


def argument(metavar: str, text: str, **more: Any) -> Any:
    return typer.Argument(metavar=metavar, help=text, **more)


START: Final = option("DAY", f"The first day: {FORMATS}.", parser=parse_day)
End: TypeAlias = Annotated[
    date | None, option("DAY", "The last day; today by default.", parser=parse_day)
]
AsJson: TypeAlias = Annotated[
    bool, switch("--json", "Print the gateway's reply as JSON, with all digits.")
]
AsCsv: TypeAlias = Annotated[bool, switch("--csv", "Print CSV (RFC 4180), for spreadsheets.")]


def choose_range(start: date | None, end: date | None, *, days: int) -> tuple[date, date]:
    """Fill in the defaults: the end is today, and the start so many days before the end."""
    last = end or datetime.now(UTC).date()
    first = start or last - timedelta(days=days)
    if first > last:
        left_out = "" if end else ", which is today if it is left out"
        raise typer.BadParameter(f"--start {first} is after --end {last}{left_out}")
    return first, last
