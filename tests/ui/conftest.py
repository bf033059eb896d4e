"""One small warehouse for all tests of the page."""

from __future__ import annotations

import os
from typing import Any

import pytest
from tests.ui.lake import build


@pytest.fixture(scope="session")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return build(tmp_path_factory.mktemp("page") / "warehouse", 28 if os.environ.get("BUCKETLAKE_PICTURES") else 8)
