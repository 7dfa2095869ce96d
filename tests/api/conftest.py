"""Homes that tests may damage: a module names its recordings, each of its tests gets a copy of what they make."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from api.replaying import replay
from api.settings import Settings


@pytest.fixture(scope="module")
def whole(request, tmp_path_factory) -> Path:
    """The home that the module's REPLAYED make; to be read only."""
    made = tmp_path_factory.mktemp("whole")
    replay(Settings(home=made), request.module.REPLAYED)
    return made


@pytest.fixture
def home(whole, tmp_path) -> Path:
    return shutil.copytree(whole, tmp_path / "home")
