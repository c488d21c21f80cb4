"""Which versions of other packages this one runs with. Its metadata says so, and installers follow that.

An option of an installer turns that off, and a later installation can replace a package. So what is there is compared
once, at the first import that needs it, before anything fails in a way that is hard to read.
"""

from __future__ import annotations

from functools import cache
from importlib.metadata import PackageNotFoundError, requires, version
from typing import TYPE_CHECKING, Final

from packaging.requirements import Requirement

from airflow_provider_ips.core.errors import UnsupportedVersionError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

DISTRIBUTION: Final = "airflow-provider-ips"


@cache
def refuse_unsupported(*names: str) -> None:
    """Refuse versions of these packages that no test has run with."""
    try:
        required = requires(DISTRIBUTION) or ()
    except PackageNotFoundError:  # imported from a folder that is not installed
        return
    compare(map(Requirement, required), names, version)


def compare(required: Iterable[Requirement], names: Iterable[str], installed: Callable[[str], str]) -> None:
    """Compare what is required with what is installed.

    :param installed: Returns the version of a package, or raises ``PackageNotFoundError``.
    """
    wanted = set(names)
    for requirement in required:
        if requirement.name not in wanted or requirement.marker is not None:
            continue
        try:
            found = installed(requirement.name)
        except PackageNotFoundError:
            found = "none"
        if found == "none" or not requirement.specifier.contains(found, prereleases=True):
            raise UnsupportedVersionError(
                f"{DISTRIBUTION} needs {requirement.name} {requirement.specifier}, and {found} is installed",
                consequence="Its tests have not run with that version, and captures could be wrong",
                remedy=f"install {DISTRIBUTION} again together with the version of {requirement.name} that you want "
                "(pip then says whether both fit), under the constraints file of your Airflow",
            )
