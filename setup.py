"""Maps the four floors at the repository's root onto the package `sandlot` (see docs/design.md)."""

from setuptools import find_packages, setup

FLOORS = ("sandboxes", "envs", "harness", "trainers")
KINDS = "txt json jsonl gz html css js svg sql toml yaml sh pddl twl2 typed"  # of data files that belong to the package

packages = find_packages(include=["sandlot", "sandlot.*"])
for floor in FLOORS:
    packages += [f"sandlot.{floor}", *(f"sandlot.{floor}.{name}" for name in find_packages(floor))]

setup(
    packages=packages,
    package_dir={"sandlot": "sandlot", **{f"sandlot.{floor}": floor for floor in FLOORS}},
    package_data={"": [f"*.{kind}" for kind in KINDS.split()]},
)
