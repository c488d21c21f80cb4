"""Ask a Spark master or worker how it is, by its status page: healthy.py master|worker ADDRESS."""

import json
import sys
import urllib.request


def main(role: str, address: str) -> int:
    with urllib.request.urlopen(f"{address}/json/", timeout=5) as answer:  # noqa: S310 - given by compose.yaml
        status = json.load(answer)
    # A worker learns where the master's page is when it has been registered.
    healthy = status["status"] == "ALIVE" if role == "master" else bool(status["masterwebuiurl"])
    return 0 if healthy else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
