"""A file that a web service received, passed on as it is: the `UploadFile` of Starlette."""

import io
from collections.abc import Awaitable, Callable
from typing import Any

import httpx
import pytest
from starlette.applications import Starlette
from starlette.datastructures import Headers, UploadFile
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from gateway_sdk import GatewaySession, InvalidArgumentError, Multipart
from tests.http.uploads.kinds import LARGE
from tests.http.uploads.servers import session, taking
from tests.support.recorder import Recorder

pytest.importorskip("python_multipart", reason="not tested, because no python-multipart was found")

PassOn = Callable[[GatewaySession, UploadFile], Awaitable[Any]]


async def as_it_is(gateway: GatewaySession, received: UploadFile) -> Any:
    return await gateway.aml.upload_document(received)


async def after_a_look(gateway: GatewaySession, received: UploadFile) -> Any:
    """Read it, which has moved its position, and go back."""
    content = await received.read()
    with pytest.raises(InvalidArgumentError, match=r"unreadable file: .*: seek\(0\)"):
        await gateway.aml.upload_document(received)
    await received.seek(0)
    assert content
    return await gateway.aml.upload_document(received)


async def in_a_form(gateway: GatewaySession, received: UploadFile) -> Any:
    return await gateway.aml.upload_document(Multipart({"kind": "scan"}, {"front": received}))


async def post(url: str, pass_on: PassOn, name: str, content: bytes, media_type: str) -> None:
    """Send a form with a file to a service, which passes the file on to the gateway."""

    async def endpoint(request: Request) -> JSONResponse:
        async with session(url) as gateway, request.form() as form:
            received = form["document"]
            assert isinstance(received, UploadFile)
            return JSONResponse(await pass_on(gateway, received))

    service = Starlette(routes=[Route("/", endpoint, methods=["POST"])])
    transport = httpx.ASGITransport(service)
    async with httpx.AsyncClient(transport=transport, base_url="http://service") as client:
        reply = await client.post("/", files={"document": (name, content, media_type)})
    assert reply.status_code == 200


@pytest.mark.parametrize("pass_on", [as_it_is, after_a_look])
@pytest.mark.parametrize("content", [b"scan", LARGE], ids=["in memory", "on disk"])
async def test_a_received_file_is_passed_on(pass_on: PassOn, content: bytes) -> None:
    """Its bytes at their length, under the media type that the client gave to it."""
    async with taking() as (url, taker):
        await post(url, pass_on, "scan.bin", content, "image/x-own; q=1")

    (upload,) = taker.uploads
    assert upload.body == content
    assert upload.framing == ["image/x-own; q=1", str(len(content)), ""]


async def test_a_received_file_in_a_form_has_its_name_and_its_type() -> None:
    async with taking() as (url, taker):
        await post(url, in_a_form, "Ausweis ü.pdf", LARGE, "image/x-own")

    (upload,) = taker.uploads
    head, _, content = upload.body.partition(b"\r\n\r\nscan\r\n")[2].partition(b"\r\n\r\n")
    assert 'name="front"; filename="Ausweis ü.pdf"\r\nContent-Type: image/x-own' in head.decode()
    assert content.startswith(LARGE)


@pytest.mark.parametrize(("name", "wanted"), [("a.pdf", "pdf"), (None, "octet-stream")])
async def test_without_a_media_type_it_is_that_of_the_name(name: str | None, wanted: str) -> None:
    recorder = Recorder()

    await recorder.session().aml.upload_document(UploadFile(io.BytesIO(b"scan"), filename=name))

    assert recorder.sent[0].headers["content-type"] == f"application/{wanted}"


async def test_a_media_type_that_no_header_can_carry() -> None:
    """It comes from a client of the service, so another one can be given."""
    recorder = Recorder()
    gateway = recorder.session()
    received = UploadFile(io.BytesIO(b"scan"), headers=Headers({"content-type": "a\x01b"}))

    with pytest.raises(InvalidArgumentError, match="content_type has white space"):
        await gateway.aml.upload_document(received)
    await gateway.aml.upload_document(received, "image/png")

    assert [request.headers["content-type"] for request in recorder.sent] == ["image/png"]


class OfDjango(io.BytesIO):
    name, content_type = "scan.pdf", "image/x-own"


class OfQuart(OfDjango):
    """As Werkzeug's FileStorage, whose `name` is that of the field."""

    name, filename = "document", "scan.pdf"


@pytest.mark.parametrize("kind", [OfDjango, OfQuart])
async def test_a_plain_file_of_a_framework_has_its_name_and_its_type(kind: type[OfDjango]) -> None:
    async with taking() as (url, taker), session(url) as gateway:
        await gateway.aml.upload_document(kind(b"scan"))
        await gateway.aml.upload_document(Multipart({}, {"front": kind(b"scan")}))

    alone, form = taker.uploads
    assert alone.framing[0] == "image/x-own"
    assert b'filename="scan.pdf"\r\nContent-Type: image/x-own\r\n\r\nscan' in form.body
