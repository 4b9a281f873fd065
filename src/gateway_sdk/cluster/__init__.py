"""Bulk runs on the workers of a Dask cluster, for what may be made twice; needs [cluster].

from gateway_sdk import cluster

cluster.run(latest, queries, address="tls://scheduler:8786", journal="rates.db", job="rates")
"""

from gateway_sdk.cluster.run import run

__all__ = ["run"]
