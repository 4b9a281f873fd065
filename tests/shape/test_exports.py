"""The public names, and nothing but them."""

import pytest

import gateway_sdk
from gateway_sdk import auth, bulk, errors, fleet, models, sandbox


@pytest.mark.parametrize("module", [gateway_sdk, auth, bulk, fleet, models, sandbox])
def test_public_names_are_there(module: object) -> None:
    """Every name in __all__ exists, once; the linter keeps them sorted."""
    names = vars(module)["__all__"]

    assert len(names) == len(set(names))
    assert [name for name in names if not hasattr(module, name)] == []


def test_the_public_face_of_bulk() -> None:
    """As that of the top: a new name is a decision."""
    assert bulk.__all__ == [
        "EXPORT_SUFFIXES",
        "Adaptive",
        "BulkResult",
        "Entry",
        "Exported",
        "Failure",
        "Ledger",
        "Outage",
        "Progress",
        "RateRow",
        "Results",
        "State",
        "currencies_of",
        "export",
        "rate_rows",
        "run",
        "write_results",
    ]


def test_every_error_can_be_imported_from_the_top() -> None:
    """Whoever catches an error finds it where the session is."""
    kinds = {
        name
        for name, kind in vars(errors).items()
        if isinstance(kind, type) and issubclass(kind, Exception) and not name.startswith("_")
    }

    assert kinds - set(vars(gateway_sdk)["__all__"]) == set()


def test_the_public_face_of_the_top() -> None:
    """A new public name is a decision, and is written down here."""
    assert [name for name in vars(gateway_sdk)["__all__"] if not name.endswith("Error")] == [
        "Advice",
        "Attempt",
        "CallInfo",
        "GatewaySession",
        "GatewayTransport",
        "Limiter",
        "Multipart",
        "Observer",
        "Outcome",
        "RateLimit",
        "Repeatability",
        "Reply",
        "RetryBudget",
        "RetryPolicy",
        "RunInfo",
        "Token",
        "TokenSource",
        "__version__",
        "auth",
        "bulk",
        "fleet",
        "models",
        "operations",
    ]
