"""A capture goes through the rooms of the package with few ways back. What it visits is shown by ``make walk``."""

import re
import subprocess
import sys

import pytest

from scripts.rooms import ROOT
from scripts.walk import MOST_RETURNS, Visit, Walk, describe


@pytest.mark.needs_airflow_3_3("the capture that is walked has its checkpoint in a Variable")
def test_an_append_capture_rarely_returns_to_a_room():
    """In a process of its own: what an earlier test has cached would not be visited."""
    walked = subprocess.run(
        [sys.executable, "-m", "scripts.walk"], cwd=ROOT, capture_output=True, text=True, check=False, timeout=300
    )

    assert walked.returncode == 0, walked.stderr
    changes_minus_rooms = re.search(r"changes minus rooms +(-?\d+)", walked.stdout)
    assert changes_minus_rooms, walked.stdout
    assert int(changes_minus_rooms[1]) <= MOST_RETURNS, walked.stdout


@pytest.mark.parametrize(
    ("rooms", "changes_minus_rooms"),
    [("kitchen hall attic", -1), ("kitchen kitchen hall", -1), ("kitchen hall kitchen", 0), ("a b a b a b a b", 5)],
)
def test_each_return_to_a_room_counts(rooms, changes_minus_rooms):
    visits = [Visit(f"{room}.{number}", room, "work", "") for number, room in enumerate(rooms.split())]
    walk = Walk(visits={visit.module: visit for visit in visits}, modules={})

    assert walk.changes_minus_rooms == changes_minus_rooms
    assert f"changes minus rooms    {changes_minus_rooms} (at most {MOST_RETURNS})" in list(describe(walk))
