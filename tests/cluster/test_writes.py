"""The random writer and the audit log tell the same story."""

from __future__ import annotations

from collections import Counter
from contextlib import closing

import pytest

from tests.cluster.truth import read
from tests.cluster.writes import Writer
from tests.services.api import Api
from tests.services.clusters import own_cluster
from tests.services.control_plane import Options

pytestmark = pytest.mark.cluster


def test_what_the_writer_did_is_in_the_audit_log(tmp_path):
    with own_cluster(tmp_path, Options()) as plane, closing(Api(plane.kubeconfig)) as api:
        writer = Writer(api, seed=1)
        writer.populate(20)
        writer.write(300)
        writer.release()
    truth = read(plane.audit_log)
    for one in writer.done:
        if one.vanished:
            gone = truth.lives[one.uid].gone
            assert gone is not None
            assert one.span.start <= gone.start <= gone.end <= one.span.end
        elif (one.uid, one.version) in truth.versions:
            made = truth.versions[one.uid, one.version]
            assert made.end <= one.span.end
        else:
            assert truth.lives[one.uid].gone is not None  # The request that let it go.
    verbs = Counter(one.verb for one in writer.done)
    assert all(verbs[verb] > 10 for verb in ("create", "update", "patch", "delete"))
    assert len({one.group_resource for one in writer.done}) > 15
    assert sum(writer.refused.values()) < len(writer.done) / 20
