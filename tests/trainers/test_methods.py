from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from sandlot.envs.core.errors import InvalidArgument
from sandlot.trainers.estimators import GAE, GRPO, RLOO, ReinforcePlusPlus
from sandlot.trainers.methods import make_recipe, recipe_names
from sandlot.trainers.recipe import Objective, Recipe
from sandlot.trainers.systems import systems


def test_every_file_of_the_folder_is_a_system():
    import sandlot.trainers.systems as folder

    files = {path.stem for path in Path(folder.__path__[0]).glob("*.py")} - {"__init__"}
    assert set(systems()) == files >= {"gigpo", "ecpo"}
    assert systems()["gigpo"] == "sandlot.trainers.systems.gigpo"


@pytest.mark.parametrize("name", recipe_names())
def test_every_name_makes_a_recipe_of_that_name(name):
    recipe = make_recipe(name)
    assert isinstance(recipe, Recipe)
    assert recipe.name == name
    assert list(recipe.estimator([])) == []
    assert make_recipe(name, groups=3, group_size=5).groups == 3


def test_baselines():
    assert make_recipe("grpo").estimator == GRPO()
    assert make_recipe("rloo").estimator == RLOO()
    assert make_recipe("reinforcepp", baseline=True).estimator == ReinforcePlusPlus(baseline=True)
    ppo = make_recipe("ppo", gamma=0.9)
    assert ppo.estimator == GAE(gamma=0.9)
    assert ppo.critic
    assert not any(make_recipe(name).critic for name in ("grpo", "rloo", "reinforcepp"))


def test_options_go_to_the_part_that_has_them():
    recipe = make_recipe("grpo", std=False, aggregation="constant", length=64, lr=3e-4)
    assert recipe.estimator == GRPO(std=False)
    assert recipe.objective == Objective(aggregation="constant", length=64)
    assert recipe.lr == 3e-4
    whole = make_recipe("grpo", objective=Objective(clip_low=0.1), clip_high=0.3)
    assert whole.objective == Objective(clip_low=0.1, clip_high=0.3)


def test_the_standard_objectives_are_what_their_papers_say():
    assert make_recipe("dr_grpo").estimator == GRPO(std=False)
    assert make_recipe("dr_grpo").objective.aggregation == "constant"
    dapo = make_recipe("dapo", overlong=4, limit=16, skip_cut=True)
    assert (dapo.objective.clip_low, dapo.objective.clip_high, dapo.objective.aggregation) == (0.2, 0.28, "token")
    assert dapo.resample > 0 and len(dapo.shapers) == len(dapo.modulators) == 1
    assert make_recipe("gspo").objective.ratio == "sequence"
    assert make_recipe("cispo").objective.surrogate == "cispo"
    rows = make_recipe("grpo", step_rows=True)
    assert rows.estimator == GRPO(count="turn") and rows.objective.aggregation == "call"


def test_an_unknown_name_names_close_ones():
    with pytest.raises(InvalidArgument, match="did you mean gigpo"):
        make_recipe("gigp")
    with pytest.raises(InvalidArgument, match=r"choose from .*grpo.*ecpo"):
        make_recipe("zzz")
    with pytest.raises(InvalidArgument, match=r"did you mean .*clip_high"):
        make_recipe("grpo", clip_hihg=0.3)
    with pytest.raises(InvalidArgument, match="estimator"):
        make_recipe("grpo", estimator=RLOO())


def test_listing_the_systems_imports_none_and_no_torch():
    code = (
        "import sys; from sandlot.trainers.methods import recipe_names, make_recipe; recipe_names();"
        "make_recipe('ppo');"
        "print([m for m in sys.modules if m == 'torch' or m.startswith('sandlot.trainers.systems.')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
