"""HomeMaker: sizes, equal homes from equal numbers, disjoint splits, names that are not unique, homes that run."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from itertools import combinations

import pytest

from sandlot.envs.core.errors import InvalidArgument, UnknownTask
from sandlot.envs.core.text_env import text_key
from sandlot.envs.smarthome.maker.make import make_home
from sandlot.envs.smarthome.maker.people import HELD_OUT_NAMES, NAMES
from sandlot.envs.smarthome.maker.plan import Place, cut
from sandlot.envs.smarthome.maker.rooms import DEVICES, PLANS
from sandlot.envs.smarthome.maker.rooms import KINDS as ROOMS
from sandlot.envs.smarthome.maker.things import KINDS as THINGS
from sandlot.envs.smarthome.sim.home import SimHome
from sandlot.envs.smarthome.spec import HomeSpec


def digest(spec: HomeSpec) -> str:
    return text_key(json.dumps(spec.to_json(), sort_keys=True))


@pytest.mark.parametrize("size", ["small", "medium", "large"])
def test_homes_have_the_size_asked_for_and_run(size: str) -> None:
    least, most = DEVICES[size]
    for split in ("train", "test"):
        for number in range(6):
            spec = make_home(split, number, size)
            assert least <= len(spec.devices) <= most
            assert len({entity.name for entity in spec.entities}) == len(spec.entities)
            home = SimHome(spec)
            home.advance(6 * 3600)
            assert all(-20 < room.temperature < 45 for room in home.rooms().values())
            for entity in spec.entities:
                state = home.state(entity.entity_id)
                assert state is not None and state.state != "unavailable"


def test_equal_numbers_give_equal_homes_in_any_process() -> None:
    code = (
        "import json; from sandlot.envs.smarthome.maker.make import make_home;"
        "from sandlot.envs.core.text_env import text_key;"
        "print(*(text_key(json.dumps(make_home('train', n).to_json(), sort_keys=True)) for n in range(4)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == [digest(make_home("train", number)) for number in range(4)]


def test_splits_share_no_home_and_held_out_ones_no_names() -> None:
    seen: dict[str, str] = {}
    for split in ("train", "valid_seen", "valid_unseen", "test"):
        for number in range(60):
            spec = make_home(split, number)
            plain = {**spec.to_json(), "id": "", "name": ""}
            assert seen.setdefault(text_key(json.dumps(plain, sort_keys=True)), split) == split
            held_out = split in ("valid_unseen", "test")
            assert {person.name for person in spec.residents} <= set(HELD_OUT_NAMES if held_out else NAMES)
            assert (spec.extra["style"] in ("behind", "initials")) <= held_out
    assert len(seen) == 240 and not set(NAMES) & set(HELD_OUT_NAMES)


def test_names_are_ambiguous() -> None:
    """In most homes some name is the beginning of another: "Lamp" and "Lamp 2", "Bedroom Plug" and "Bedroom Plug 2"."""
    ambiguous = 0
    for number in range(40):
        names = [device.name for device in make_home("train", number, "medium").devices]
        ambiguous += any(other.startswith(f"{name} ") for name in names for other in names)
    assert ambiguous > 20


def test_every_kind_is_used_somewhere() -> None:
    named = {kind for room in ROOMS.values() for kind in (*room.always, *(kind for _, kind in room.more))}
    assert named == set(THINGS)
    assert {kind for plans in PLANS.values() for plan in plans for kind in plan} == set(ROOMS)


def test_making_a_home_takes_milliseconds() -> None:
    best = 1.0
    for number in range(5):
        begin = time.process_time()
        make_home("train", number, "large")
        best = min(best, time.process_time() - begin)
    assert best < 0.05  # 5 ms on the machine where it was written


def test_rooms_of_a_floor_do_not_overlap_and_leave_no_gaps() -> None:
    for split in ("train", "test"):
        for number in range(120):
            spec = make_home(split, number)
            for floor in spec.floors:
                rooms = [room for room in spec.rooms if room.floor == floor.id]
                for a, b in combinations(rooms, 2):
                    across = min(a.x + a.width, b.x + b.width) - max(a.x, b.x)
                    along = min(a.y + a.depth, b.y + b.depth) - max(a.y, b.y)
                    assert min(across, along) < 1e-9, (spec.id, a.id, b.id)
                inside = [room for room in rooms if not room.outdoor]
                wide, deep = (max(x) for x in zip(*((r.x + r.width, r.y + r.depth) for r in inside), strict=True))
                assert sum(room.area for room in inside) == pytest.approx(wide * deep)
                assert min(min(room.width, room.depth) for room in inside) > 1.0


def test_a_floor_is_cut_into_rectangles() -> None:
    """24 m2 as 12, 6, 6 on 6 x 4: the largest gets the left half (3 x 4), the others 3 x 2 each of the right one."""
    assert cut([6.0, 12.0, 6.0], Place(0, 0, 6, 4)) == [Place(3, 0, 3, 2), Place(0, 0, 3, 4), Place(3, 2, 3, 2)]


def test_what_does_not_exist() -> None:
    with pytest.raises(InvalidArgument, match="no size 'huge'"):
        make_home("train", 0, "huge")
    with pytest.raises(UnknownTask, match="no split 'dev'"):
        make_home("dev", 0)
