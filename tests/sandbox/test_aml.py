from collections.abc import AsyncIterator

import httpx
import pytest

UPLOAD = "/aml/1.0.0/document/upload"
SHA256_OF_ABC = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"


async def upload(client: httpx.AsyncClient) -> None:
    reply = await client.post(UPLOAD, content=b"first", headers={"Content-Type": "image/png"})
    assert reply.json()["documentId"] == "document-0001"


async def test_upload_is_kept_by_size_and_digest(client: httpx.AsyncClient) -> None:
    """The size and the digest in the reply prove that each byte arrived."""
    reply = await client.post(UPLOAD, content=b"abc", headers={"Content-Type": "application/pdf"})

    assert reply.status_code == 200
    assert reply.json() == {
        "documentId": "document-0001",
        "size": 3,
        "sha256": SHA256_OF_ABC,
        "contentType": "application/pdf",
        "status": "uploaded",
    }


async def test_upload_may_be_larger_than_a_json_body(client: httpx.AsyncClient) -> None:
    """An upload in pieces has no limit, and needs no Content-Type."""

    async def pieces() -> AsyncIterator[bytes]:
        for _ in range(32):
            yield bytes(65536)

    reply = await client.post(UPLOAD, content=pieces())

    assert reply.json()["size"] == 2 * 1024 * 1024
    assert reply.json()["contentType"] is None


async def test_update_replaces_the_content(client: httpx.AsyncClient) -> None:
    """An updated document has its new content, and its old status."""
    await upload(client)
    await client.put("/aml/1.0.0/document/document-0001/status", content=b"verified")

    reply = await client.put("/aml/1.0.0/document/update/document-0001", content=b"abc")

    assert reply.status_code == 200
    assert reply.json()["sha256"] == SHA256_OF_ABC
    assert reply.json()["status"] == "verified"


@pytest.mark.parametrize("body", [b"verified", b" verified\n", b'{"status": "verified"}'])
async def test_status_is_text_or_json(client: httpx.AsyncClient, body: bytes) -> None:
    """A status may be bare text or JSON, with any Content-Type."""
    await upload(client)

    reply = await client.put(
        "/aml/1.0.0/document/document-0001/status", content=body, headers={"Content-Type": "a/b"}
    )

    assert reply.status_code == 200
    assert reply.json()["status"] == "verified"


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"", "the body contains no status"),
        (b" \n", "the body contains no status"),
        (b'{"status": " "}', "the body contains no status"),
        (b'{"status": 1}', "$.status must be a string"),
        (b'{"state": "verified"}', "$.state is not a field of the interface"),
        (b'{"status"', "the body is not JSON"),
        (b"\xff", "the body is not UTF-8"),
    ],
)
async def test_missing_status_is_refused(
    client: httpx.AsyncClient, body: bytes, message: str
) -> None:
    """A body without a status is refused, and the message says why."""
    await upload(client)

    reply = await client.put("/aml/1.0.0/document/document-0001/status", content=body)

    assert reply.status_code == 400
    assert reply.json()["message"] == message


@pytest.mark.parametrize("path", ["document-0001/status", "update/document-0001"])
async def test_unknown_document_is_not_found(client: httpx.AsyncClient, path: str) -> None:
    """A document that was never uploaded cannot be changed."""
    reply = await client.put(f"/aml/1.0.0/document/{path}", content=b"abc")

    assert reply.status_code == 404
    assert reply.json()["message"] == "no such document"


async def test_a_document_may_be_empty(client: httpx.AsyncClient) -> None:
    """The interface takes any entity body, and the SDK sends an empty one."""
    uploaded = await client.post(UPLOAD, content=b"")
    updated = await client.put("/aml/1.0.0/document/update/document-0001", content=b"")

    assert [uploaded.status_code, updated.status_code] == [200, 200]
    assert updated.json()["size"] == 0


async def test_documents_belong_to_their_tenant(client: httpx.AsyncClient) -> None:
    """A document of one tenant is not found from another."""
    await upload(client)

    reply = await client.put(
        "/aml/1.0.0/document/document-0001/status", content=b"x", headers={"tenantId": "other"}
    )

    assert reply.status_code == 404
