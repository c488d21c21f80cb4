"""Who is killed, and when: drawn from a seed, bounded in number, and said as it happens."""

import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from random import Random

import psutil

from tests.kit.deployment import Deployment, is_alive
from tests.kit.rest import until

TASKS = ("capture", "work", "commit")
KINDS = {"task": 12, "task and supervisor": 2, "supervisor": 2, "scheduler and all its tasks": 2}
"""What is killed, and how often among all.

Never the scheduler alone: workers of its LocalExecutor outlive it, and the next scheduler ran and started nothing, most
likely because they hold the dead one's connection to PostgreSQL open, with the locks of its last transaction. A service
or a container dies as a whole.
"""

PATIENCE_S = 20


@dataclass
class Killer:
    """Kills what it is told to, and keeps the count."""

    airflow: Deployment
    random: Random
    counts: Counter = field(default_factory=Counter)
    started_s: float = field(default_factory=time.monotonic)

    def strike(self):
        """Kill something at a random moment, if it is there."""
        kind = self.random.choices(list(KINDS), weights=list(KINDS.values()))[0]
        if kind.startswith("scheduler"):
            self._kill_scheduler()
        else:
            self._kill_task(kind)

    def say(self, text):
        now = datetime.now(tz=UTC).strftime("%H:%M:%S")
        print(f"{now} {time.monotonic() - self.started_s:6.1f} s  {text}", flush=True)

    def _kill_scheduler(self):
        """And start another, at once or a little later."""
        kind = "scheduler and all its tasks"
        self.airflow.kill("scheduler")
        self.counts[kind] += 1
        pause_s = self.random.uniform(0, 2)
        self.say(f"SIGKILL {kind}; another in {pause_s:.1f} s")
        time.sleep(pause_s)
        self.airflow.start("scheduler")

    def _kill_task(self, kind):
        """Wait until a task of that name runs, let it come as far as it comes, and kill."""
        task_id, delay_s = self.random.choice(TASKS), self.random.uniform(0, 1.2)
        with suppress(AssertionError):
            dag_id, run_id, task = until(lambda: self._running(task_id), seconds=PATIENCE_S, pause_s=0.05)
            time.sleep(delay_s)
            if victims := _victims(task["pid"], kind):
                for process in victims:
                    with suppress(psutil.NoSuchProcess):
                        process.kill()
                self.counts[f"{kind}: {task_id}"] += 1
                self.say(f"SIGKILL {kind}, {dag_id}.{task_id} try {task['try_number']} of {run_id}, {delay_s:.1f} s in")

    def _running(self, task_id):
        """A task of that name that runs now, of either stage."""
        for dag_id, run_id, task in self.airflow.rest.running():
            if task["task_id"] == task_id and task["pid"]:
                return dag_id, run_id, task
        return None


def _victims(pid, kind):
    """The task's process, what supervises it, or both; none if it has ended by now."""
    with suppress(psutil.NoSuchProcess):
        task = psutil.Process(pid)
        supervisor = task.parent()
        if is_alive(task) and supervisor is not None and "airflow" in " ".join(supervisor.cmdline()):
            return {"task": [task], "supervisor": [supervisor], "task and supervisor": [supervisor, task]}[kind]
    return []
