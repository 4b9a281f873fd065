"""A login whose response is pasted, alone or beside a browser that delivers it."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from gateway_sdk.auth import login
from gateway_sdk.errors import (
    AuthorizationDeniedError,
    LoginError,
    LoginTimeoutError,
    MalformedResponseError,
)
from tests.auth.people import (
    DENIED,
    ELSEWHERE,
    FLOW,
    FOREIGN,
    GOOD,
    MALFORMED,
    TOKEN,
    Paster,
    Reader,
    answer_to,
    asked_in,
)
from tests.auth.traces import no_traces, release_ports

HERE = "http://127.0.0.1:0/callback"
PASTE_IT = "Then paste the whole address of the page that you are sent to, and press Enter."


@pytest.fixture(autouse=True)
async def _no_traces(caplog: pytest.LogCaptureFixture) -> AsyncIterator[None]:
    async with no_traces(caplog):
        yield


class Case:
    """A login with a user who reads and pastes."""

    def __init__(self, redirect_uri: str = HERE, seconds: float = 60) -> None:
        self.reader, self.paster = Reader(), Paster()
        self.task = asyncio.create_task(
            login(
                FLOW,
                redirect_uri=redirect_uri,
                browser=False,
                show=self.reader,
                paste=self.paster,
                timeout=seconds,
            )
        )

    async def paste(self, *answers: str) -> None:
        """Paste the URL that the browser was sent to with a response."""
        url = await self.reader.url()
        for answer in answers:
            self.paster.lines.put_nowait(answer_to(url, answer))

    async def must_be_over(self) -> None:
        """Require that the input is not read any more, and that no port is open."""
        assert not self.paster.is_reading
        release_ports()
        place = asked_in(await self.reader.url())[0].split("/")[2]
        if place.startswith("127.0.0.1:"):
            with pytest.raises(ConnectionRefusedError):
                await asyncio.open_connection(*place.split(":"))


@pytest.mark.parametrize("redirect_uri", [HERE, ELSEWHERE])
async def test_a_pasted_address_logs_in(redirect_uri: str) -> None:
    """A URL can be pasted with a receiver and without one."""
    case = Case(redirect_uri)
    await case.paste(GOOD)

    assert (await case.task).value.get_secret_value() == TOKEN
    await case.must_be_over()
    here = redirect_uri == HERE
    at = f"{await case.reader.start_url()} or, on another machine, at this" if here else "this"
    assert case.reader.texts == [f"Log in at {at} address:", await case.reader.url(), PASTE_IT]


async def test_a_browser_may_be_faster_than_pasting() -> None:
    """If the browser delivers the response, reading the input stops."""
    case = Case()

    assert await case.reader.go(GOOD) == 200
    assert (await case.task).value.get_secret_value() == TOKEN
    await case.must_be_over()


async def test_both_at_once_are_one_login() -> None:
    """A response that is delivered and pasted at the same time gives one token."""
    case = Case()
    handing_over = asyncio.create_task(case.reader.go(GOOD))
    await case.paste(GOOD)

    assert (await case.task).value.get_secret_value() == TOKEN
    await asyncio.wait([handing_over])
    assert handing_over.exception() or handing_over.result() in {200, 400}
    await case.must_be_over()


@pytest.mark.parametrize("redirect_uri", [HERE, ELSEWHERE])
async def test_a_wrong_address_can_be_pasted_again(redirect_uri: str) -> None:
    """Each URL of another login is reported as wrong, and not shown."""
    case = Case(redirect_uri)
    for line in ("", "CANARY", "https://evil.test/#CANARY"):
        case.paster.lines.put_nowait(line)
    await case.paste(FOREIGN, "", GOOD)

    assert (await case.task).value.get_secret_value() == TOKEN
    told = case.reader.texts[3:]
    assert len(told) == 5
    assert all(
        text.startswith(("Not this one: the response ", "Not this one: the URL ")) for text in told
    )
    assert all(text.endswith(". Paste the whole address, up to its end.") for text in told)
    assert not any("CANARY" in text for text in told)


@pytest.mark.parametrize("redirect_uri", [HERE, ELSEWHERE])
@pytest.mark.parametrize(
    ("answer", "error"), [(DENIED, AuthorizationDeniedError), (MALFORMED, MalformedResponseError)]
)
async def test_a_pasted_response_without_a_token_ends_the_login(
    redirect_uri: str, answer: str, error: type[LoginError]
) -> None:
    """A refusal or an invalid response has the same error as from a browser."""
    case = Case(redirect_uri)
    await case.paste(answer)

    with pytest.raises(error) as caught:
        await case.task
    await case.must_be_over()
    assert "CANARY" not in str(caught.value)


@pytest.mark.parametrize("redirect_uri", [HERE, ELSEWHERE])
async def test_the_end_of_the_input_ends_the_login(redirect_uri: str) -> None:
    """A user who ends the input instead of pasting gives up the login."""
    case = Case(redirect_uri)
    case.paster.lines.put_nowait(None)

    with pytest.raises(LoginError, match=r"^nothing was pasted$") as caught:
        await case.task
    assert type(caught.value) is LoginError
    await case.must_be_over()


@pytest.mark.parametrize("redirect_uri", [HERE, ELSEWHERE])
async def test_pasting_times_out(redirect_uri: str) -> None:
    """The time-out includes pasting, and ends it."""
    case = Case(redirect_uri, seconds=0.01)

    with pytest.raises(LoginTimeoutError, match=r"^the login was not finished within 0\.01 s: no "):
        await case.task
    await case.must_be_over()


@pytest.mark.parametrize("redirect_uri", [HERE, ELSEWHERE])
async def test_a_cancelled_login_stops_everything(redirect_uri: str) -> None:
    """Cancelling the waiting task stops the pasting and closes the port."""
    case = Case(redirect_uri)
    await case.reader.url()
    await case.paster.asked.wait()
    case.task.cancel()

    with pytest.raises(asyncio.CancelledError):
        await case.task
    await case.must_be_over()


async def test_a_login_leaves_no_task() -> None:
    """After the login no task runs, also none of a connection that is still open."""
    case = Case()
    place = asked_in(await case.reader.url())[0].split("/")[2]
    reader, writer = await asyncio.open_connection(*place.split(":"))
    writer.write(b"x\r\n\r\n")
    assert (await reader.read()).startswith(b"HTTP/1.1 400 ")
    await case.paste(GOOD)
    await case.task

    assert asyncio.all_tasks() == {asyncio.current_task()}
    writer.close()
    await writer.wait_closed()


@pytest.mark.parametrize("redirect_uri", [HERE, ELSEWHERE])
async def test_an_outer_time_out_is_the_callers(redirect_uri: str) -> None:
    """A caller's own time-out stays a TimeoutError, not a LoginTimeoutError."""
    with pytest.raises(TimeoutError) as caught:
        async with asyncio.timeout(0.01):
            await Case(redirect_uri).task

    assert type(caught.value) is TimeoutError


@pytest.mark.parametrize("redirect_uri", [HERE, ELSEWHERE])
@pytest.mark.parametrize(
    "error", [TimeoutError("theirs"), OSError("theirs"), LookupError("theirs")]
)
async def test_what_pasting_raises_ends_the_login(redirect_uri: str, error: Exception) -> None:
    """An error of the paste function is raised unchanged, also a TimeoutError."""

    async def paste() -> str:
        raise error

    with pytest.raises(type(error), match="theirs") as caught:
        await login(FLOW, redirect_uri=redirect_uri, browser=False, show=Reader(), paste=paste)

    assert caught.value is error


@pytest.mark.parametrize("redirect_uri", [HERE, ELSEWHERE])
@pytest.mark.parametrize("last", range(4))
async def test_what_showing_raises_ends_the_login(redirect_uri: str, last: int) -> None:
    """An error of the show function is raised unchanged, and no task is left."""
    shown: list[str] = []
    paster = Paster()
    paster.lines.put_nowait("wrong")

    def show(text: str) -> None:
        if len(shown) == last:
            raise BrokenPipeError
        shown.append(text)

    with pytest.raises(BrokenPipeError):
        await login(FLOW, redirect_uri=redirect_uri, browser=False, show=show, paste=paster)

    assert len(shown) == last
    assert not paster.is_reading
