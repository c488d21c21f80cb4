"""The Airflow plugin: the page *Incremental*, and links on captures and commits.

Airflow loads a provider's plugin by the entry point ``airflow.plugins`` only, and in every one of its processes. So
pages and links are imported when the API server asks for them, and nowhere else.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

from airflow.sdk.plugins_manager import AirflowPlugin


class IpsPlugin(AirflowPlugin):
    """The page *Incremental* and record pages under ``/ips``, and links on captures and commits."""

    name = "ips"

    @cached_property
    def fastapi_apps(self) -> list[dict[str, Any]]:  # type: ignore[override]
        """The web app with all pages. Each of its routes checks the same rights as Airflow's own."""
        from airflow_provider_ips.ui.app import create_app
        from airflow_provider_ips.ui.urls import APP_PREFIX

        return [{"app": create_app(), "url_prefix": APP_PREFIX, "name": "Incremental Processing Support"}]

    @cached_property
    def external_views(self) -> list[Any]:  # type: ignore[override]
        """Where Airflow shows our pages in a frame: in its navigation, and as a tab of each DAG and each task."""
        from airflow_provider_ips.ui.urls import external_views

        return external_views()

    @cached_property
    def operator_extra_links(self) -> list[Any]:  # type: ignore[override]
        """The links that the API server shows on every capture and commit."""
        from airflow_provider_ips.links.captures import ALL

        return [link() for link in ALL]
