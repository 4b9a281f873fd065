"""The commands, each imported when it is used."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:  # here PyInstaller and other freezers find them
    from gateway_sdk.cli.commands import (
        aml as aml,
        bulk as bulk,
        countries as countries,
        customer as customer,
        demo as demo,
        fleet as fleet,
        kyc as kyc,
        login as login,
        rates as rates,
        sandbox as sandbox,
        wallet as wallet,
    )
