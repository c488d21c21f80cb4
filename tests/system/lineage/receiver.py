"""Takes the events of an OpenLineage client, and writes each as a line of a file. Prints its port; ends with its input.

A process of its own: the listener forks the tests' process, and waits for the answer there.
"""

import sys
from pathlib import Path

from tests.kit.http import Handler, http_server


def main(path):
    class Receiver(Handler):
        def handle_request(self) -> None:
            with path.open("ab") as received:
                received.write(self.read_body().replace(b"\n", b" ") + b"\n")
            self.answer(201)

    with http_server(Receiver) as listening:
        print(listening.server_port, flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
