"""Maps the four floors at the repository's root onto the package `sandlot` (see docs/design.md)."""

from setuptools import find_packages, setup

FLOORS = ("sandboxes", "envs", "harness", "trainers")

packages = find_packages(include=["sandlot", "sandlot.*"])
for floor in FLOORS:
    packages += [f"sandlot.{floor}", *(f"sandlot.{floor}.{name}" for name in find_packages(floor))]

setup(
    packages=packages,
    package_dir={"sandlot": "sandlot", **{f"sandlot.{floor}": floor for floor in FLOORS}},
    package_data={"": ["*.txt", "*.json", "*.html", "*.pddl", "*.twl2", "py.typed"]},
)
