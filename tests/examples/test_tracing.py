"""The demo of traces and metrics prints both, without a server."""

import re
import sys

from tests.support.documents import ROOT, run


async def test_the_demo_prints_spans_and_metrics() -> None:
    """A retry, a failure and a run with its items, and the histograms of all."""
    ended = await run(sys.executable, "-W", "error", "examples/tracing.py", folder=ROOT)

    assert ended.status == 0, ended.err
    lines = ended.out.splitlines()
    spans = [line for line in lines if line.startswith("span ")]
    assert len([line for line in spans if "http.request.method=" in line]) == 6
    assert [line for line in spans if "list_countries: " in line and "[gateway.retry]" in line]
    assert [line for line in spans if "/wallet/1.0.0/{walletId}/orders/{orderId}' " in line]
    (run_of_all,) = [line for line in spans if " bulk.run: " in line]
    number = re.findall(r"> (\w+) bulk\.run", run_of_all)[0]
    assert len([line for line in spans if f" {number} > " in line]) == 3
    metrics = {line.split()[1].rstrip(":") for line in lines if line.startswith("metric ")}
    assert metrics == {"http.client.request.duration", "gateway.client.call.duration"}
    assert "no-such" not in ended.out
