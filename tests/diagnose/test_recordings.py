"""Checks over recorded clusters: silence where they are healthy, the fault where they are not, and the marks for it."""

from __future__ import annotations

from pathlib import Path

import pytest

from api import evaluating, home, questions, replaying
from api.questions import Moment
from api.settings import Settings
from api.slices import Film, read
from diagnose.catalogue import READS, run
from store.rewind import Rewind

RECORDINGS = Path(__file__).parents[1] / "recordings"


@pytest.fixture(scope="module")
def past_of(tmp_path_factory):
    """A recording by name, replayed."""
    opened = []

    def replayed(name: str) -> Rewind:
        settings = Settings(home=tmp_path_factory.mktemp(name))
        replaying.replay(settings, [RECORDINGS / f"{name}.jsonl.gz"])
        past = home.past(settings)
        opened.append(past)
        return past.__enter__()

    yield replayed
    for past in opened:
        past.__exit__(None, None, None)


def test_a_healthy_cluster_is_silent_at_every_change_and_at_its_end() -> None:
    marked = evaluating.mark(RECORDINGS / "healthy_rotation.jsonl.gz")
    assert (marked.score.noisy, marked.checks) == (0, ())
    assert marked.score.instants > 400
    assert marked.score.right


def test_a_film_shows_what_reading_each_instant_does(past_of) -> None:
    rewind = past_of("watch_gap")
    moment = questions.settle(rewind)
    film = Film(rewind, moment, READS)
    asked = [one.vf for one in film.changes[::40]] + [moment.at]
    assert len(asked) > 10
    for at in asked:
        one, two = film.at(at), read(rewind, Moment(moment.scope, at, moment.known_at), READS)
        assert one.objects == two.objects
        assert one.edges == two.edges
        assert one.evidence == two.evidence
        key = next(iter(one.of("apps/Deployment")))[0]
        assert one.past.changes(key) == two.past.changes(key)
        assert one.past.recent("core/Pod") == two.past.recent("core/Pod")
        assert one.past.before(key, at) == two.past.before(key, at)
        types = ("core/Pod", "apps/Deployment", "networking.k8s.io/NetworkPolicy", "example.com/Unheard")
        assert [one.watched(t, None) for t in types] == [two.watched(t, None) for t in types]
        assert run(one) == run(two)
