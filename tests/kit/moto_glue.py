"""Glue of moto on loopback, with the check of versions that Amazon's has: run by the Python that has moto.

Amazon refuses an update that names another version than the table's. moto takes any, and so the last writer would win.
"""

from threading import Event, Lock

from moto.glue import responses
from moto.glue.exceptions import GlueClientError
from moto.server import ThreadedMotoServer

_one_at_a_time = Lock()


class ConcurrentModificationError(GlueClientError):  # type: ignore[misc] # moto is not in the environment of mypy
    """As Glue calls it."""

    def __init__(self) -> None:
        super().__init__("ConcurrentModificationException", "Update table failed due to concurrent modifications.")


def main() -> None:
    """Listen until the process is ended."""
    unchecked = responses.GlueResponse.update_table

    def update_table(self):
        with _one_at_a_time:
            wanted = self.parameters.get("VersionId")
            table = self.glue_backend.get_table(self.parameters["DatabaseName"], self.parameters["TableInput"]["Name"])
            if wanted is not None and str(wanted) != str(table._current_version):
                raise ConcurrentModificationError
            return unchecked(self)

    responses.GlueResponse.update_table = update_table
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    print(f"Listening on http://127.0.0.1:{server.get_host_and_port()[1]}", flush=True)
    Event().wait()


if __name__ == "__main__":
    main()
