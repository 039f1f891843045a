"""The conformance suite over the whole registry."""

from __future__ import annotations

import pytest

from sandlot.envs import REGISTRY
from sandlot.envs.core import EnvironmentFault, MissingData, MissingExtra
from sandlot.envs.core.testing import check_text_env

# TextWorld's own generators compile every new game in a process of its own, and the suite plays many games. A browser
# takes a tenth of a second per step.
EPISODES = {"toys": 20, "textworld": 1, "terminal": 1}
SLOW = [env_id for env_id, entry in REGISTRY.items() if entry.family == "textworld" or entry.extra == "browser"]


@pytest.mark.parametrize(
    "env_id", [pytest.param(env_id, marks=pytest.mark.slow if env_id in SLOW else ()) for env_id in REGISTRY]
)
def test_contract(env_id: str) -> None:
    entry = REGISTRY[env_id]
    try:
        env = entry.load()(**entry.kwargs)
        env.reset(seed=0)
        env.close()
    except (MissingExtra, MissingData, EnvironmentFault) as error:
        pytest.skip(f"cannot run here: {error}")
    report = check_text_env(env_id, episodes=EPISODES.get(entry.family, 4))
    print(report)
    assert len(report.passed) > 20
