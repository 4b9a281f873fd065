"""Options of a session and its views, where they are not seen on the wire."""

import inspect

from gateway_sdk import GatewaySession


def test_what_is_left_out_reads_as_that() -> None:
    """The signature of with_options shows that leaving an option out is not None."""
    signature = inspect.signature(GatewaySession.with_options)

    assert str(signature.parameters["tenant_id"]).endswith("= ...")
