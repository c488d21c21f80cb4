"""The Airflow plugin: pages of its own, and the links to them.

Airflow loads a provider's plugin by the entry point ``airflow.plugins`` only, and in every one of its processes. So
what it brings is imported when the API server asks for it, and nowhere else.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

from airflow.sdk.plugins_manager import AirflowPlugin


class IpsPlugin(AirflowPlugin):
    """Record pages under ``/ips``, and links on captures and commits."""

    name = "ips"

    @cached_property
    def fastapi_apps(self) -> list[dict[str, Any]]:  # type: ignore[override]
        """Each of its routes asks for the rights that Airflow itself asks for."""
        from airflow_provider_ips.links._urls import APP_PREFIX
        from airflow_provider_ips.plugins._app import create_app

        return [{"app": create_app(), "url_prefix": APP_PREFIX, "name": "Incremental Processing Support"}]

    @cached_property
    def operator_extra_links(self) -> list[Any]:  # type: ignore[override]
        """In the API server these stand on every capture and commit."""
        from airflow_provider_ips.links.captures import ALL

        return [link() for link in ALL]
