"""Java for Nessie, which may be newer than the one that Spark runs on. Standard library only: .ci/install asks it."""

import os
import re
from pathlib import Path

NEEDED = 21
HOMES = (
    "/usr/lib/jvm/*",
    "/opt/*",
    "/opt/java/*",
    "/Library/Java/JavaVirtualMachines/*/Contents/Home",
    "/opt/homebrew/opt/openjdk*/libexec/openjdk.jdk/Contents/Home",
    "~/.sdkman/candidates/java/*",
    "~/.jdks/*",
)


def newest_java():
    """The program of the newest Java on this machine; LookupError if none is new enough."""
    found = {home: _major(home) for home in _homes() if (home / "bin" / "java").is_file()}
    home = max(found, key=lambda candidate: found[candidate], default=None)
    if home is None or found[home] < NEEDED:
        known = ", ".join(f"{major} in {home}" for home, major in found.items()) or "none"
        raise LookupError(
            f"the tests of REST catalogs start Nessie, which needs Java {NEEDED} or newer (found: {known}); install "
            f"one beside Spark's, or name it by JAVA_HOME_{NEEDED}"
        )
    return home / "bin" / "java"


def _homes():
    named = [Path(value) for name, value in os.environ.items() if name.startswith("JAVA_HOME") and value]
    on_path = [Path(folder).resolve().parent for folder in os.environ.get("PATH", "").split(os.pathsep) if folder]
    there: list[Path] = []
    for pattern in HOMES:
        folder = Path(pattern).expanduser()
        there += Path(folder.anchor).glob(str(folder.relative_to(folder.anchor)))
    return [*named, *on_path, *there]


def _major(home):
    """As the file that every Java since 9 carries says it; 0 where it does not."""
    try:
        text = (home / "release").read_text()
    except OSError:
        return 0
    version = re.search(r'^JAVA_VERSION="(\d+)', text, re.MULTILINE)
    return int(version[1]) if version else 0
