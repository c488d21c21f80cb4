"""URLs of our pages and of Airflow's own pages, with the prefix under which a proxy serves this Airflow."""

from __future__ import annotations

from functools import cache
from typing import Any, Final
from urllib.parse import quote, urlencode, urlsplit

from airflow.configuration import conf

APP_PREFIX: Final = "/ips"
"""Where the plugin's pages are mounted."""


def record_page(dag_id: str, run_id: str, task_id: str, map_index: int | None = None) -> str:
    """Return the URL of a capture's record page: for a mapped task all instances, unless one is named."""
    query = "" if map_index is None or map_index < 0 else "?" + urlencode({"map_index": map_index})
    return f"{prefix()}{APP_PREFIX}/captures/{_path(dag_id, run_id, task_id)}{query}"


_ICON: Final = (
    '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 24 24" fill="none" stroke="{}" stroke-width="2" '
    'stroke-linecap="round" stroke-linejoin="round"><path d="M4 7h9M4 12h6M4 17h4"/>'
    '<path d="M17 6v12M13 14l4 4 4-4"/></svg>'
)
_ICON_COLOURS: Final = ("#25324d", "#e8edf5")


def external_views() -> list[dict[str, Any]]:
    """Describe the places in Airflow's UI where our pages are shown in a frame: its navigation, and tabs."""
    light, dark = (f"data:image/svg+xml,{quote(_ICON.format(colour))}" for colour in _ICON_COLOURS)
    # From Airflow 3.3 on the entry is in the navigation itself, and below it among the plugins.
    common = {"name": "Incremental", "icon": light, "icon_dark_mode": dark, "nav_top_level": True}
    start = f"{prefix()}{APP_PREFIX}"
    places = (
        ("nav", "incremental", f"{start}/"),
        ("dag", "incremental-dag", f"{start}/dags/{{DAG_ID}}"),
        ("task", "incremental-task", f"{start}/dags/{{DAG_ID}}/tasks/{{TASK_ID}}"),
    )
    return [{**common, "destination": place, "url_route": route, "href": address} for place, route, address in places]


def overview_page() -> str:
    """Return the URL of the page *Incremental*."""
    return f"{prefix()}{APP_PREFIX}/"


def consumer_page(dag_id: str, consumer: str) -> str:
    """Return the URL of a consumer's page. Rights are checked on the DAG, so it is in the path."""
    return f"{prefix()}{APP_PREFIX}/consumers/{_path(dag_id)}?" + urlencode({"consumer": consumer})


def tables_page() -> str:
    """Return the URL of the list of sources."""
    return f"{prefix()}{APP_PREFIX}/tables"


def table_page(dag_id: str, table: str) -> str:
    """Return the URL of the page of a source, for those who may read a DAG that captures from it."""
    return f"{prefix()}{APP_PREFIX}/tables/{_path(dag_id)}?" + urlencode({"table": table})


def stages_page() -> str:
    """Return the URL of the graph of DAGs that feed each other."""
    return f"{prefix()}{APP_PREFIX}/stages"


def action_page(dag_id: str, consumer: str, action: str) -> str:
    """Return the URL of an action on a consumer: it is shown by GET, and done by POST."""
    return f"{prefix()}{APP_PREFIX}/consumers/{_path(dag_id, action)}?" + urlencode({"consumer": consumer})


def shared_action_page(action: str) -> str:
    """Return the URL of an action that concerns all consumers."""
    return f"{prefix()}{APP_PREFIX}/{action}"


def dag_page(dag_id: str) -> str:
    """Return the URL of Airflow's page of a DAG."""
    return f"{prefix()}/dags/{_path(dag_id)}"


def definition_page(dag_id: str, task_id: str) -> str:
    """Return the URL of Airflow's page of a task of a DAG, over all runs."""
    return f"{dag_page(dag_id)}/tasks/{_path(task_id)}"


def run_page(dag_id: str, run_id: str) -> str:
    """Return the URL of Airflow's page of a run."""
    return f"{prefix()}/dags/{_path(dag_id)}/runs/{_path(run_id)}"


def task_page(dag_id: str, run_id: str, task_id: str, map_index: int) -> str:
    """Return the URL of Airflow's page of a task instance and its log."""
    mapped = f"/mapped/{map_index}" if map_index >= 0 else ""
    return f"{run_page(dag_id, run_id)}/tasks/{_path(task_id)}{mapped}"


def assets_page() -> str:
    """Return the URL of Airflow's list of assets."""
    return f"{prefix()}/assets"


def login_page(back_to: str) -> str:
    """Return the URL of Airflow's login page, which leads back afterwards."""
    return f"{prefix()}/api/v2/auth/login?{urlencode({'next': back_to})}"


@cache
def prefix() -> str:
    """Return the path under which a proxy serves this Airflow. Looked up once: a page has thousands of links."""
    return urlsplit(conf.get("api", "base_url", fallback="")).path.rstrip("/")


def _path(*parts: str) -> str:
    return "/".join(quote(part, safe="") for part in parts)
