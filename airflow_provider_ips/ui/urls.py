"""URLs of our record page and of Airflow's own pages, with the prefix under which a proxy serves this Airflow."""

from __future__ import annotations

from typing import Final
from urllib.parse import quote, urlencode, urlsplit

from airflow.configuration import conf

APP_PREFIX: Final = "/ips"
"""Where the plugin's pages are mounted."""


def record_page(dag_id: str, run_id: str, task_id: str, map_index: int | None = None) -> str:
    """Return the URL of a capture's record page: for a mapped task all instances, unless one is named."""
    query = "" if map_index is None or map_index < 0 else "?" + urlencode({"map_index": map_index})
    return f"{_root()}{APP_PREFIX}/captures/{_path(dag_id, run_id, task_id)}{query}"


def run_page(dag_id: str, run_id: str) -> str:
    """Return the URL of Airflow's page of a run."""
    return f"{_root()}/dags/{_path(dag_id)}/runs/{_path(run_id)}"


def task_page(dag_id: str, run_id: str, task_id: str, map_index: int) -> str:
    """Return the URL of Airflow's page of a task instance and its log."""
    mapped = f"/mapped/{map_index}" if map_index >= 0 else ""
    return f"{run_page(dag_id, run_id)}/tasks/{_path(task_id)}{mapped}"


def assets_page() -> str:
    """Return the URL of Airflow's list of assets."""
    return f"{_root()}/assets"


def login_page(back_to: str) -> str:
    """Return the URL of Airflow's login page, which leads back afterwards."""
    return f"{_root()}/api/v2/auth/login?{urlencode({'next': back_to})}"


def _root() -> str:
    return urlsplit(conf.get("api", "base_url", fallback="")).path.rstrip("/")


def _path(*parts: str) -> str:
    return "/".join(quote(part, safe="") for part in parts)
