"""Each alert that may end a TLS handshake: what it means, and whether to try again."""

import re
from typing import Final

import pytest

from gateway_sdk import Advice, ConnectionFailedError, Outcome
from tests.call.test_reason import NOT_ACCEPTED, OLD, WANTED, error_of
from tests.support.certificates import Papers
from tests.support.failing_server import FailingServer, Line
from tests.support.failing_steps import sending, steps

CIPHERS: Final = re.escape(OLD)
OTHERWISE: Final = "it refused the TLS handshake: it wants what this TLS does not offer"
FAILED: Final = r"the TLS handshake failed(: \w+)?"

ALERTS: Final[dict[int, tuple[str, str]]] = {
    10: ("unexpected_message", FAILED),
    20: ("bad_record_mac", FAILED),
    21: ("decryption_failed", FAILED),
    22: ("record_overflow", FAILED),
    30: ("decompression_failure", FAILED),
    40: ("handshake_failure", CIPHERS),
    41: ("no_certificate", NOT_ACCEPTED),
    42: ("bad_certificate", NOT_ACCEPTED),
    43: ("unsupported_certificate", NOT_ACCEPTED),
    44: ("certificate_revoked", NOT_ACCEPTED),
    45: ("certificate_expired", NOT_ACCEPTED),
    46: ("certificate_unknown", NOT_ACCEPTED),
    47: ("illegal_parameter", OTHERWISE),
    48: ("unknown_ca", NOT_ACCEPTED),
    49: ("access_denied", NOT_ACCEPTED),
    50: ("decode_error", FAILED),
    51: ("decrypt_error", FAILED),
    60: ("export_restriction", CIPHERS),
    70: ("protocol_version", "it speaks other versions of TLS"),
    71: ("insufficient_security", CIPHERS),
    80: ("internal_error", "the TLS handshake failed: TLSV1_ALERT_INTERNAL_ERROR"),
    86: ("inappropriate_fallback", FAILED),
    90: ("user_canceled", FAILED),
    100: ("no_renegotiation", FAILED),
    109: ("missing_extension", OTHERWISE),
    110: ("unsupported_extension", OTHERWISE),
    111: ("certificate_unobtainable", NOT_ACCEPTED),
    112: ("unrecognized_name", "it serves no host of this name"),
    113: ("bad_certificate_status_response", FAILED),
    114: ("bad_certificate_hash_value", NOT_ACCEPTED),
    115: ("unknown_psk_identity", OTHERWISE),
    116: ("certificate_required", WANTED),
    120: ("no_application_protocol", "it does not speak HTTP/1.1, perhaps HTTP/2 only"),
    # Of ech_required (121), as of what is not assigned, OpenSSL 3.0 says "unknown error".
    121: ("ech_required", f"{FAILED}|{OTHERWISE}"),
    255: ("not assigned", FAILED),
}


@pytest.mark.parametrize("number", ALERTS, ids=lambda number: ALERTS[number][0])
async def test_an_alert_has_a_meaning(papers: Papers, number: int) -> None:
    """What the next handshake would end with too is not tried again, and is for a person."""
    _, reason = ALERTS[number]
    script = steps(Line.forget, sending(b"\x15\x03\x03\x00\x02\x02" + bytes([number])), Line.close)
    async with FailingServer(script) as server:
        error = await error_of(server.url.replace("http:", "https:"), verify=papers.authority.path)

    assert isinstance(error, ConnectionFailedError)
    assert re.fullmatch(reason, error.reason)
    assert error.outcome is Outcome.NOT_SENT
    is_transient = error.reason.startswith("the TLS handshake failed")
    assert error.advice is (Advice.REPEAT if is_transient else Advice.FIX)
    assert len(error.attempts) == (3 if is_transient else 1)


@pytest.fixture(scope="module")
def papers(tmp_path_factory: pytest.TempPathFactory) -> Papers:
    return Papers(tmp_path_factory.mktemp("papers"))
