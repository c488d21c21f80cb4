"""Airflow's public REST API, which is all that a click in the UI does."""

import time
from urllib.parse import quote

import httpx

PATIENCE_S = 120
DONE = ("success", "failed")


def until(answer, *, seconds=PATIENCE_S, what="what was waited for", pause_s=0.15):
    """Ask again and again until there is an answer: other processes do the work, and tell nobody."""
    deadline = time.monotonic() + seconds
    while not (found := answer()):
        assert time.monotonic() < deadline, f"waited {seconds} s in vain for {what}"
        time.sleep(pause_s)
    return found


class Rest:
    """What people do with DAGs: trigger, clear, mark, delete, backfill, look."""

    def __init__(self, url, *, headers=None):
        self._url = url
        self._http = httpx.Client(base_url=url, timeout=30, trust_env=False, headers=headers)

    def log_in(self, user, password):
        answer = self._http.post("/auth/token", json={"username": user, "password": password})
        answer.raise_for_status()
        self._http.headers["Authorization"] = f"Bearer {answer.json()['access_token']}"

    @property
    def headers(self):
        """What another client needs to be let in as well."""
        return {"Authorization": self._http.headers["Authorization"]}

    def health(self):
        """What each part says of itself; nothing while the API server does not answer."""
        try:
            return self._http.get("/api/v2/monitor/health").json()
        except (httpx.TransportError, ValueError):
            return {}

    def ask(self, method, path, *, expect=(200, 201, 204), **arguments):
        """One call; what is refused says why."""
        answer = self._http.request(method, f"/api/v2{path}", **arguments)
        assert answer.status_code in expect, f"{method} {path}: {answer.status_code} {answer.text}"
        return answer.json() if answer.content else None

    def knows(self, dag_id):
        return self._http.get(f"/api/v2/dags/{dag_id}").status_code == httpx.codes.OK

    def import_errors(self):
        return self.ask("GET", "/importErrors")["import_errors"]

    def trigger(self, dag_id, run_id=None, *, logical_date=None, conf=None):
        """Start a run and return its id."""
        body = {"dag_run_id": run_id, "logical_date": logical_date, "conf": conf or {}}
        return self.ask("POST", f"/dags/{dag_id}/dagRuns", json=body)["dag_run_id"]

    def run(self, dag_id, run_id):
        return self.ask("GET", _run(dag_id, run_id))

    def runs(self, dag_id):
        """All runs of a DAG, in the order in which they came to be."""
        params = {"limit": 1000, "order_by": "id"}
        return self.ask("GET", f"/dags/{dag_id}/dagRuns", params=params)["dag_runs"]

    def finish(self, dag_id, run_id, *, seconds=PATIENCE_S):
        """Wait until a run is over, and return its task's states."""
        self.wait_for(lambda: self.run(dag_id, run_id)["state"] in DONE, f"{dag_id} {run_id} to end", seconds)
        return self.states(dag_id, run_id)

    def tasks(self, dag_id, run_id):
        """Task instances by name; those of mapped ones are called ``task[0]``."""
        found = self.ask("GET", f"{_run(dag_id, run_id)}/taskInstances", params={"limit": 500})["task_instances"]
        return {t["task_id"] if t["map_index"] < 0 else f"{t['task_id']}[{t['map_index']}]": t for t in found}

    def running(self):
        """All tasks that run now, with their DAG and run."""
        path = "/dags/~/dagRuns/~/taskInstances"
        found = self.ask("GET", path, params={"limit": 500, "state": "running"})["task_instances"]
        return [(task["dag_id"], task["dag_run_id"], task) for task in found]

    def tries(self, dag_id, run_id, task_id):
        """All tries of a task that have ended or are under way."""
        return self.ask("GET", f"{_run(dag_id, run_id)}/taskInstances/{task_id}/tries")["task_instances"]

    def states(self, dag_id, run_id):
        return {name: task["state"] for name, task in self.tasks(dag_id, run_id).items()}

    def wait_for_task(self, dag_id, run_id, task_id, *states, seconds=PATIENCE_S):
        """Wait until a task is in one of these states, and return the instance."""

        def look():
            task = self.tasks(dag_id, run_id).get(task_id)
            return task if task and task["state"] in states else None

        return self.wait_for(look, f"{dag_id} {run_id} {task_id} to be {states}", seconds)

    def wait_for(self, answer, what, seconds=PATIENCE_S):
        return until(answer, seconds=seconds, what=what)

    def clear(self, dag_id, run_id, *task_ids, downstream=False):
        """Clear tasks of a run (all without any named), as the UI's button does."""
        body = {
            "dry_run": False,
            "dag_run_id": run_id,
            "only_failed": False,
            "reset_dag_runs": True,
            "include_downstream": downstream,
        }
        if task_ids:
            body["task_ids"] = list(task_ids)
        self.ask("POST", f"/dags/{dag_id}/clearTaskInstances", json=body)

    def mark(self, dag_id, run_id, task_id, state):
        """Mark one task as a success or a failure."""
        self.ask("PATCH", f"{_run(dag_id, run_id)}/taskInstances/{task_id}", json={"new_state": state})

    def mark_run(self, dag_id, run_id, state):
        self.ask("PATCH", _run(dag_id, run_id), json={"state": state})

    def delete(self, dag_id, run_id):
        self.ask("DELETE", _run(dag_id, run_id))

    def pause(self, dag_id, *, paused=True):
        self.ask("PATCH", f"/dags/{dag_id}", json={"is_paused": paused})

    def xcom(self, dag_id, run_id, task_id, key, *, map_index=-1, may_lack=False):
        """What a task has pushed; None where it has not, if it may."""
        path = f"{_run(dag_id, run_id)}/taskInstances/{task_id}/xcomEntries/{quote(key, safe='')}"
        expect = (200, 404) if may_lack else (200,)
        return self.ask("GET", path, expect=expect, params={"map_index": map_index, "deserialize": True}).get("value")

    def log(self, dag_id, run_id, task_id, try_number, *, map_index=-1):
        """What a task said in one of its tries."""
        path = f"{_run(dag_id, run_id)}/taskInstances/{task_id}/logs/{try_number}"
        content = self.ask("GET", path, params={"full_content": True, "map_index": map_index})["content"]
        return "\n".join(map(str, content))

    def variable(self, key):
        """A Variable's value; None where there is none."""
        answer = self._http.get(f"/api/v2/variables/{quote(key, safe='')}")
        return None if answer.status_code == httpx.codes.NOT_FOUND else answer.json()["value"]

    def asset_events(self, dag_id=None):
        """Asset events, oldest first."""
        return self.ask("GET", "/assets/events", params={"limit": 500, "order_by": "timestamp"})["asset_events"]


def _run(dag_id, run_id):
    return f"/dags/{dag_id}/dagRuns/{quote(run_id, safe='')}"
