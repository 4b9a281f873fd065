from collections.abc import Callable, Mapping

import pytest

from tests.cli.ended import Ended
from tests.cli.logins import CANARY, keep, kept, record_path

Call = Callable[..., Ended]
Settings = Mapping[str, str]


def words_of(ended: Ended) -> str:
    """Give what is said below the facts, in one line."""
    return " ".join(ended.out.partition("\n\n")[2].split())


def test_logout_says_how_long_the_token_stays_valid(call_gateway: Call, settings: Settings) -> None:
    """The token is gone here; that it is good elsewhere, and until when, is said."""
    token = keep()

    ended = call_gateway("logout")

    assert (ended.status, ended.err) == (0, "")
    assert f"Gateway    {settings['GATEWAY_BASE_URL']} (GATEWAY_BASE_URL)\n" in ended.out
    assert words_of(ended) == (
        "The access token is deleted here. "
        f"It stays valid until {token.ends} in programs that have it."
    )
    assert kept() is None
    assert CANARY not in ended.out


def test_logout_from_a_token_without_an_end(call_gateway: Call, settings: Settings) -> None:
    """If its end is not known, nothing is made up."""
    keep(life=None)

    assert "stays valid until it expires in" in words_of(call_gateway("logout"))
    assert kept() is None


def test_logout_from_an_expired_token(call_gateway: Call, settings: Settings) -> None:
    """What has expired is deleted, and is no danger to anybody."""
    token = keep(age=4000.0)

    words = words_of(call_gateway("logout"))

    assert words == f"The access token is deleted here. It had expired at {token.ends}."
    assert not record_path().exists()


def test_logout_without_a_token(call_gateway: Call, settings: Settings) -> None:
    """Whoever is logged out already is told so, which is no failure."""
    ended = call_gateway("logout")

    assert (ended.status, ended.err) == (0, "")
    assert words_of(ended) == "There was no access token."


@pytest.mark.parametrize("mode", [0o600, 0o644])
def test_logout_deletes_what_is_broken(call_gateway: Call, settings: Settings, mode: int) -> None:
    """A record that cannot be used, or that others can read, is deleted all the same."""
    keep()
    if mode == 0o600:
        record_path().write_text("{", encoding="utf-8")
    record_path().chmod(mode)

    ended = call_gateway("logout")

    assert (ended.status, ended.err) == (0, "")
    assert words_of(ended) == ("The record of the access token was damaged; it is deleted.")
    assert not record_path().exists()


def test_token_that_cannot_be_deleted_is_said(call_gateway: Call, settings: Settings) -> None:
    """A record that stays is not said to be gone."""
    keep()
    record_path().unlink()
    record_path().mkdir()

    ended = call_gateway("logout")

    assert ended.status == 1
    assert "deleted" not in ended.out
    assert "cannot be removed" in ended.err
