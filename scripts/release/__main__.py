"""Check that this version can be released (``make release-check``): what is said, what is built, and what that does.

    python -m scripts.release                   the built files of dist/, in a few minutes
    python -m scripts.release --tag v0.1.0      and that the tag is that of the version

It changes nothing but .cache and .artefacts/release, where it leaves the bill of materials.
"""

from __future__ import annotations

import argparse
import sys
import time
from typing import TYPE_CHECKING

from scripts.release import distributions, environments, sources

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


def steps(version: str, tag: str | None) -> Iterator[tuple[str, Iterable[str]]]:
    """Each part of the checklist, and the problems that it finds once it is gone through."""
    wheel, sdist = distributions.wheel(version), distributions.sdist(version)
    environment = sources.ROOT / ".cache" / "smoke" / "wheel"
    yield "version, changelog, tables, URLs and licence files", sources.problems(tag)
    yield "files, metadata and README of what is built", distributions.problems(version)
    yield "the wheel, installed and used", environments.use(wheel, "wheel")
    yield "the bill of materials of that installation", environments.list_parts(version, environment)
    yield "the source distribution, installed and used", environments.use(sdist, "sdist")
    yield "tests, run from the source distribution", environments.run_its_tests(sdist)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tag", help="the tag that is to be released")
    options = parser.parse_args()
    version, failed = sources.version(), False
    for title, problems in steps(version, options.tag):
        began = time.monotonic()
        found = list(problems)
        failed |= bool(found)
        print(
            f"release {version}: {'NOT READY' if found else 'ok'}: {title} ({time.monotonic() - began:.0f} s)",
            flush=True,
        )
        print(*(f"  - {problem}" for problem in found), sep="\n", end="\n" if found else "", flush=True)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
