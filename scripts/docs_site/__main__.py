"""Build the documentation's site and check its links (``make docs``), or show it while it is written.

python -m scripts.docs_site                    into .artefacts/docs/dev
python -m scripts.docs_site --release 0.1      into .artefacts/docs/0.1, beside the versions that are there
python -m scripts.docs_site --serve 8000       on 127.0.0.1, and again whenever a page changes
"""

from __future__ import annotations

import argparse
import functools
import shutil
import subprocess
import sys
import threading
import time
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Final

from scripts.docs_site.links import broken
from scripts.docs_site.navigation import ROOT
from scripts.docs_site.pages import stage
from scripts.docs_site.versions import DEVELOPMENT, list_versions

SITE: Final = ROOT / ".artefacts" / "docs"
WORK: Final = ROOT / ".cache" / "docs"
SPHINX: Final = Path(__file__).parent / "sphinx"
WATCHED: Final = ("docs", "docker/README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")


def build(site: Path, version: str, *, keep: bool = False) -> int:
    """Build one version; what Sphinx warns about, and a link that leads nowhere, fail it.

    With ``keep`` the pages of the last build stay where readers find them, and only what changed is written.
    """
    began = time.monotonic()
    stage(WORK / "pages")
    if not keep:
        shutil.rmtree(site / version, ignore_errors=True)  # a page that is removed leaves nothing
    command = [sys.executable, "-m", "sphinx", "--builder", "html", "--fail-on-warning", "--jobs", "2", "--quiet"]
    command += ["--conf-dir", str(SPHINX), "--doctree-dir", str(WORK / "doctrees" / version)]
    command += ["--html-define", f"docs_version={version}", str(WORK / "pages"), str(site / version)]
    if done := subprocess.run(command, check=False).returncode:
        return done
    list_versions(site)
    wrong = broken(site)
    print(*wrong, sep="\n", file=sys.stderr, end="\n" if wrong else "")
    print(f"docs: {site / version / 'index.html'} ({time.monotonic() - began:.0f} s, {len(wrong)} broken links)")
    return 1 if wrong else 0


def serve(site: Path, port: int) -> int:
    """Show the site until interrupted. A page that does not build is said, and the last good one stays."""
    from watchfiles import watch

    build(site, DEVELOPMENT, keep=True)
    handler = functools.partial(SimpleHTTPRequestHandler, directory=str(site))
    with ThreadingHTTPServer(("127.0.0.1", port), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        print(f"docs: http://127.0.0.1:{server.server_port}/{DEVELOPMENT}/ (Ctrl-C ends it)", flush=True)
        for _ in watch(*(ROOT / name for name in WATCHED), raise_interrupt=False):
            build(site, DEVELOPMENT, keep=True)
        server.shutdown()
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--release", default=DEVELOPMENT, help="the name of the version, and of its folder")
    parser.add_argument("--into", type=Path, default=SITE, help="the folder with all versions")
    parser.add_argument("--serve", type=int, metavar="PORT", help="show it on this port of 127.0.0.1")
    options = parser.parse_args()
    if options.serve is not None:
        return serve(options.into, options.serve)
    return build(options.into, options.release)


if __name__ == "__main__":
    sys.exit(main())
