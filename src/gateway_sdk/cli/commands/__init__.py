"""The commands, each imported when it is used."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:  # here PyInstaller and other freezers find them
    from gateway_sdk.cli.commands import (
        fleet as fleet,
        login as login,
        operations as operations,
        rates as rates,
        sandbox as sandbox,
    )
