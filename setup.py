"""The list of packages; everything else about the distribution is in pyproject.toml.

The repository's root is the package `epochfence`, and setuptools' own discovery can't put a
prefix before what it finds. So it is done here: a new sub-package is never left out.
"""

from setuptools import find_packages, setup

rooms = find_packages(exclude=["tests", "tests.*", "docs", "docs.*", "bench", "bench.*"])

setup(
    script_name="setup.py",  # or it would be taken for a module of the root package
    package_dir={"epochfence": "."},
    packages=["epochfence", *(f"epochfence.{room}" for room in rooms)],
)
