"""A PostgreSQL server of the test's own on 127.0.0.1, gone when the test is."""

import os
import pwd
import shutil
import subprocess
import tempfile
from contextlib import contextmanager
from pathlib import Path

from scripts.loopback import HOST, free_port
from tests.kit.processes import server


@contextmanager
def postgres_server(*, password):
    """Start a server, and give its address as ``host:port/database``."""
    programs = _programs()
    account = _account()
    # Not below pytest's folders: these are closed to the account that the server has to run under.
    folder = Path(tempfile.mkdtemp(prefix="ips-postgres-"))
    data = folder / "data"
    (folder / "password").write_text(password)
    if "user" in account:
        for path in (folder, folder / "password"):
            os.chown(path, account["user"], account["group"])
    port = free_port()
    try:
        login = ("-U", "postgres", "--auth=scram-sha-256", f"--pwfile={folder}/password")
        subprocess.run(
            [programs / "initdb", "-D", data, *login], check=True, stdout=subprocess.DEVNULL, timeout=120, **account
        )
        settings = {
            "listen_addresses": HOST,
            "port": port,
            "unix_socket_directories": folder,
            "fsync": "off",  # only processes die here, not machines
            "max_connections": 300,  # of a whole Airflow, catalogs of its tasks and of Spark's, and the test's
        }
        command = (
            str(programs / "postgres"),
            "-D",
            str(data),
            *(f"--{key}={value}" for key, value in settings.items()),
        )
        # QUIT ends it without waiting for its clients.
        with server(folder / "log", *command, ending="QUIT", **account) as running:
            running.said("(ready to accept connections)")
            yield f"{HOST}:{port}/postgres"
    finally:
        shutil.rmtree(folder)


def _programs():
    """Find initdb and pg_ctl, which Debian keeps off the PATH."""
    if found := shutil.which("initdb"):
        return Path(found).parent
    versions = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[-3]))
    if not versions:
        raise RuntimeError("these tests start a PostgreSQL server: install one (Debian: apt-get install postgresql)")
    return versions[-1].parent


def _account():
    """PostgreSQL refuses to run as root; any other account will do, and a folder that it may look into."""
    if os.geteuid() != 0:
        return {"cwd": "/"}
    nobody = pwd.getpwnam("nobody")
    return {"cwd": "/", "user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}
