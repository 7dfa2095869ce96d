"""Numbers about a home and about the server over it, for Prometheus.

Those of the home are read when asked for: they are facts of the ledger, not of this process.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from api import home
from api.settings import Settings
from schema.errors import StoreError


class _Home(Collector):
    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    def collect(self) -> Iterator[GaugeMetricFamily]:
        position = GaugeMetricFamily("hindgraph_position", "Last projected log position.", labels=["scope"])
        watermark = GaugeMetricFamily(
            "hindgraph_watermark_seconds", "System time of the last projected record, seconds.", labels=["scope"]
        )
        rows = GaugeMetricFamily("hindgraph_rows", "Rows of the ledger.", labels=["table"])
        with suppress(StoreError), home.past(self._settings) as rewind:
            for scope in rewind.scopes():
                position.add_metric([scope], rewind.position(scope))
                watermark.add_metric([scope], rewind.watermark(scope) / 1e6)
            for table, count in rewind.counts().items():
                rows.add_metric([table], count)
        yield position
        yield watermark
        yield rows


class Metrics:
    """One registry a server: the home's numbers and the requests it answered."""

    def __init__(self, settings: Settings) -> None:
        self._registry = CollectorRegistry()
        self._registry.register(_Home(settings))
        self.requests = Counter("hindgraph_requests", "Requests answered.", ["path", "status"], registry=self._registry)
        self.seconds = Histogram("hindgraph_request_seconds", "Time to answer.", ["path"], registry=self._registry)

    def text(self) -> bytes:
        return generate_latest(self._registry)
