"""What is said of a program that is not there."""

import pytest

from tests.real.programs import find


def test_a_missing_program_is_named_in_the_summary() -> None:
    """Its tests are skipped, in words that the CI looks for."""
    with pytest.raises(pytest.skip.Exception) as caught:
        find("no-such-server")

    assert caught.value.msg == "not tested, because no-such-server was not found"
