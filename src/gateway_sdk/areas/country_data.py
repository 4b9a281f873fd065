"""The country data area: the countries of the world."""

from gateway_sdk import operations
from gateway_sdk.areas import Area
from gateway_sdk.models.records import Country


class CountryDataArea(Area):
    """Lists the countries of the world."""

    async def list_countries(self) -> list[Country]:
        """Return every country that the gateway knows, in its order.

        Raises:
            UnexpectedReplyError: the gateway sent something other than a list of countries.
            GatewayError: the list did not come; asking again does no harm.
        """
        # Interface: Endpoints 12; Country record
        return await self._caller.value(operations.LIST_COUNTRIES)
