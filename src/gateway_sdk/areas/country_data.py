"""The country data area: the countries of the world."""

from typing import TYPE_CHECKING, Unpack

from gateway_sdk import operations
from gateway_sdk._call.options import PerCall
from gateway_sdk.areas import Area

if TYPE_CHECKING:
    from gateway_sdk.models import Country


class CountryDataArea(Area):
    """Lists the countries of the world."""

    async def list_countries(self, **call: Unpack[PerCall]) -> "list[Country]":
        """Return every country that the gateway knows, in its order.

        The first of the sandbox, as JSON:

        ```json
        {"id": 1, "countryName": "Aruba", "nationality": "Aruban",
         "three_digit_iso_code": "ABW", "two_digit_iso_code": "AW",
         "currency": "AWG", "phone_code": "+297"}
        ```

        Returns:
            The countries; the list may be empty.

        Raises:
            GatewayError: the list did not come; asking again does no harm.
        """
        # Interface: Endpoints 12; Country record
        return await self._caller.call(operations.LIST_COUNTRIES, call)
