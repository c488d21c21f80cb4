"""What holds for every test."""

import sqlite3

from sqlalchemy import event
from sqlalchemy.engine import Engine


@event.listens_for(Engine, "connect")
def _do_not_wait_for_the_disk(connection, _record):
    """A test's database need not survive a power failure. Else every commit of Airflow and PyIceberg waits 5 ms."""
    if isinstance(connection, sqlite3.Connection):
        connection.execute("PRAGMA synchronous = OFF")
