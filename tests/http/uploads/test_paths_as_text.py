"""A str as a document: refused without a content type, for most of them are meant as paths."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from gateway_sdk import GatewaySession, InvalidArgumentError, Outcome, operations
from tests.support.recorder import Recorder
from tests.support.secrecy import CANARY, texts_of

TEXTS = "", f"{CANARY}.pdf", "./missing.pdf", "two\nlines", "Dear Sir, my passport is here."
TYPE = "text/plain; charset=utf-8"
Call = Callable[..., Awaitable[Any]]

DOCUMENTS: dict[str, Call] = {
    "upload": lambda gateway, text, **more: gateway.aml.upload_document(text, **more),
    "update": lambda gateway, text, **more: gateway.aml.update_document("d-1", text, **more),
    "send": lambda gateway, text, **more: gateway.send(
        operations.UPLOAD_DOCUMENT, body=text, **more
    ),
}
OTHERS: dict[str, Call] = {
    "status": lambda gateway, text: gateway.aml.change_document_status("d-1", text),
    "webhook": lambda gateway, text: gateway.kyc.send_webhook(text),
}


@pytest.mark.parametrize("call", DOCUMENTS.values(), ids=DOCUMENTS)
@pytest.mark.parametrize("text", TEXTS)
async def test_a_text_is_a_document_only_with_a_content_type(call: Call, text: str) -> None:
    recorder = Recorder()
    gateway: GatewaySession = recorder.session()

    with pytest.raises(InvalidArgumentError, match="pathlib") as caught:
        await call(gateway, text)
    assert recorder.sent == []
    await call(gateway, text, content_type=TYPE)

    assert f"content_type='{TYPE}'" in str(caught.value)
    assert CANARY not in texts_of(caught.value)
    assert caught.value.outcome is Outcome.NOT_SENT
    assert [request.content for request in recorder.sent] == [text.encode()]


@pytest.mark.parametrize("call", OTHERS.values(), ids=OTHERS)
async def test_a_status_is_text_whatever_lies_in_the_working_folder(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "approved").write_bytes(b"scan")
    monkeypatch.chdir(tmp_path)
    recorder = Recorder()

    await call(recorder.session(), "approved")

    assert [request.content for request in recorder.sent] == [b"approved"]
    assert recorder.sent[0].headers["content-type"] == TYPE
