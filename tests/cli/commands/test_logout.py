from collections.abc import Callable, Mapping

import pytest

from tests.cli.ended import Ended
from tests.cli.logins import keep, record_path

LOGGED_OUT = (
    "There is no access token here any more. A program that has it can use it until it expires."
)

Call = Callable[..., Ended]
Settings = Mapping[str, str]


def words_of(ended: Ended) -> str:
    """Give what is said below the facts, in one line."""
    return " ".join(ended.out.partition("\n\n")[2].split())


@pytest.mark.parametrize("mode", [0o600, 0o644])
def test_logout_deletes_what_is_broken(call_gateway: Call, settings: Settings, mode: int) -> None:
    """A record that cannot be used, or that others can read, is deleted all the same."""
    keep()
    if mode == 0o600:
        record_path().write_text("{", encoding="utf-8")
    record_path().chmod(mode)

    ended = call_gateway("logout")

    assert (ended.status, ended.err) == (0, "")
    assert words_of(ended) == LOGGED_OUT
    assert not record_path().exists()


def test_token_that_cannot_be_deleted_is_said(call_gateway: Call, settings: Settings) -> None:
    """A record that stays is not said to be gone."""
    keep()
    record_path().unlink()
    record_path().mkdir()

    ended = call_gateway("logout")

    assert ended.status == 1
    assert "any more" not in ended.out
    assert "cannot be removed" in ended.err
