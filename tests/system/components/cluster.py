"""What stands for a cluster: jobs that go on when the task that submitted them is dead.

A job is a process of its own that appends what was captured, row by row only what is not there yet.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

from tests.kit.jobs import obey


def submit(name, **job):
    """Start a job, note that somebody did, and return its id."""
    folder = Path(os.environ["IPS_CONTROL"])
    number = len(list(folder.glob(f"{name}.job*.running")))
    job_id = f"{name}.job{number}"
    (folder / f"{job_id}.running").touch()
    subprocess.Popen(
        [sys.executable, "-m", "tests.system.components.cluster", json.dumps({**job, "name": name, "job_id": job_id})],
        start_new_session=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    return job_id


def status(job_id):
    return "SUCCEEDED" if (Path(os.environ["IPS_CONTROL"]) / f"{job_id}.done").exists() else "RUNNING"


def main(job):
    from pyiceberg.catalog import load_catalog

    folder = Path(os.environ["IPS_CONTROL"])
    obey(f"{job['name']}.job")
    connection = json.loads(os.environ[f"AIRFLOW_CONN_{job['lake'].upper()}"])
    catalog = load_catalog(job["lake"], **connection["extra"])
    target = catalog.load_table(job["target"])
    rows = catalog.load_table(job["source"]).scan().to_arrow()
    known = set(target.scan().to_arrow()["id"].to_pylist())
    target.append(rows.filter([row not in known for row in rows["id"].to_pylist()]))
    (folder / f"{job['job_id']}.done").touch()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
