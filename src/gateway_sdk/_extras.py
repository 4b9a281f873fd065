"""Imports of packages that only an extra installs."""

from collections.abc import Generator
from contextlib import contextmanager

from gateway_sdk.errors import MissingExtraError


@contextmanager
def needing_extra(extra: str, what: str) -> Generator[None]:
    """Raise `MissingExtraError` for a package that the extra would install."""
    try:
        yield
    except ModuleNotFoundError as error:
        # A module of ours that is missing is no matter of extras.
        if isinstance(error, MissingExtraError) or (error.name or "").startswith("gateway_sdk"):
            raise
        raise MissingExtraError(
            f"{what} needs the extra [{extra}]: pip install 'gateway-sdk[{extra}]'", extra=extra
        ) from None
