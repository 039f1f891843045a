"""The class itself: its documentation, Gymnasium's own checker, its spec, pickling and rendering."""

from __future__ import annotations

import inspect
import pickle
import warnings

import gymnasium
from gymnasium.envs.registration import EnvSpec
from gymnasium.utils.env_checker import check_env

from .subject import Skip, Subject

HEADINGS = (
    *("Description", "Action Space", "Observation Space", "Starting State", "Rewards", "Episode End"),
    *("Information", "Privileged Information", "State Key", "Arguments", "Source and Licence", "Version History"),
)


def docstring_headings(subject: Subject) -> None:
    """The class docstring has the fixed headings, in order, each with text below it."""
    with subject.bare() as env:
        text = inspect.cleandoc(type(env).__doc__ or "")
    found = [line[3:].strip() for line in text.splitlines() if line.startswith("## ")]
    assert tuple(found) == HEADINGS, f"headings are {found}, expected {list(HEADINGS)}"
    for part in text.split("\n## ")[1:]:
        heading, _, body = part.partition("\n")
        assert body.strip(), f"nothing is written below {heading!r}"


def gymnasium_checker(subject: Subject) -> None:
    """Gymnasium's own `check_env` passes without warnings."""
    with subject.bare() as env, warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        check_env(env)
    unexpected = [str(warning.message) for warning in caught if "WARN" in str(warning.message)]
    assert not unexpected, unexpected[0]


def spec_round_trip(subject: Subject) -> None:
    """`env.spec` builds the environment again: directly, pickled, and as JSON where the entry point has a name."""
    env = subject.wrapped()
    expected = env.reset(seed=3)
    env.close()
    assert env.spec is not None, "env.spec is None"
    specs = [env.spec]
    if isinstance(specs[0].entry_point, str):
        specs += [pickle.loads(pickle.dumps(specs[0])), EnvSpec.from_json(specs[0].to_json())]
    for spec in specs:
        again = gymnasium.make(spec)
        assert again.reset(seed=3) == expected, "an environment made from env.spec starts differently"
        again.close()


def everything_pickles(subject: Subject) -> None:
    """Infos, tasks and snapshots pickle, as the contract promises: they travel between processes."""
    with subject.bare() as env:
        _, info = env.reset(seed=0)
        for thing in (info, env.task, env.snapshot()):
            assert pickle.loads(pickle.dumps(thing)) == thing, f"{type(thing).__name__} changes in a pickle"


def render_returns_text(subject: Subject) -> None:
    """`render_mode="ansi"` gives the last observation, None nothing."""
    if not subject.accepts("render_mode"):
        raise Skip("the constructor has no `render_mode`")
    with subject.bare(render_mode="ansi") as shown, subject.bare() as silent:
        assert shown.reset(seed=0)[0] == shown.render(), "render() is not the observation"
        silent.reset(seed=0)
        assert silent.render() is None
