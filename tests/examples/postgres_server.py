"""A PostgreSQL server of the test's own on 127.0.0.1, gone when the test is."""

import os
import pwd
import shutil
import socket
import subprocess
import tempfile
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def postgres_server(*, password):
    """Start a server, and give its address as ``host:port/database``."""
    programs = _programs()
    account = _account()
    # Not below pytest's folders: these are closed to the account that the server has to run under.
    folder = Path(tempfile.mkdtemp(prefix="ips-postgres-"))
    data, log = folder / "data", folder / "log"
    (folder / "password").write_text(password)
    if account:
        for path in (folder, folder / "password"):
            os.chown(path, account["user"], account["group"])
    port = _free_port()
    try:
        _call(
            account,
            programs / "initdb",
            "-D",
            data,
            "-U",
            "postgres",
            "--auth=scram-sha-256",
            f"--pwfile={folder}/password",
        )
        options = f"-c listen_addresses=127.0.0.1 -p {port} -c unix_socket_directories={folder} -c fsync=off"
        _call(account, programs / "pg_ctl", "-D", data, "-w", "-t", "60", "-l", log, "-o", options, "start")
        try:
            yield f"127.0.0.1:{port}/postgres"
        finally:
            _call(account, programs / "pg_ctl", "-D", data, "-w", "-t", "60", "-m", "immediate", "stop")
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
    """PostgreSQL refuses to run as root; any other account will do."""
    if os.geteuid() != 0:
        return {}
    nobody = pwd.getpwnam("nobody")
    return {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}


def _call(account, *command):
    result = subprocess.run(
        [str(part) for part in command],
        cwd="/",
        stdin=subprocess.DEVNULL,
        # A file and not a pipe: the server would hold a pipe open for as long as it lives.
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        timeout=120,
        check=False,
        **account,
    )
    if result.returncode:
        raise RuntimeError(f"{command[0]} failed with exit code {result.returncode}")


def _free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
