"""What a package index shows as the README: the repository's, with links that lead to the files of the release."""

from __future__ import annotations

import re
from pathlib import Path

from hatchling.metadata.plugin.interface import MetadataHookInterface

_TARGET = re.compile(r"(?P<picture>!?)(?P<text>\[[^\]]*\])\((?![a-z]+:|#)(?P<path>[^)\s]+)\)")


def absolute(text: str, *, source: str, ref: str) -> str:
    """Let relative links lead to the hosted repository at this tag, and pictures to the bare files."""
    bare = source.replace("https://github.com/", "https://raw.githubusercontent.com/")

    def target(match: re.Match[str]) -> str:
        where = f"{bare}/{ref}" if match["picture"] else f"{source}/blob/{ref}"
        return f"{match['picture']}{match['text']}({where}/{match['path']})"

    return _TARGET.sub(target, text)


class ReadmeHook(MetadataHookInterface):
    """Hatchling's way to a field of the metadata that is made, not written."""

    def update(self, metadata: dict[str, object]) -> None:
        """Set the README."""
        urls = metadata["urls"]
        assert isinstance(urls, dict)
        text = (Path(self.root) / "README.md").read_text()
        shown = absolute(text, source=urls["Source"], ref=f"v{metadata['version']}")
        metadata["readme"] = {"content-type": "text/markdown", "text": shown}
