"""What Airflow reads about an installed provider: its operators, commands, links, assets and options."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from airflow_provider_ips.config import OPTIONS, SECTION

_INTEGRATION = "Incremental Processing Support"


def get_provider_info() -> dict[str, Any]:
    """Every Airflow command calls this when it starts, so it reads no file and imports nothing but the options."""
    return {
        # Must be the distribution's name to the letter: any other makes every Airflow command fail.
        "package-name": "airflow-provider-ips",
        "name": "Incremental Processing Support",
        "description": "Makes Spark jobs over Iceberg tables incremental without a change to the job.",
        "integrations": [
            {
                "integration-name": _INTEGRATION,
                "external-doc-url": "https://iceberg.apache.org/",
                "tags": ["software"],
            }
        ],
        "operators": _modules("operators.backfill", "operators.capture", "operators.commit"),
        "sensors": _modules("sensors.iceberg_append"),
        "triggers": _modules("triggers.iceberg_append"),
        "hooks": _modules("hooks.ips"),
        "asset-uris": [
            {
                "schemes": ["iceberg"],
                "handler": "airflow_provider_ips.assets.uris.sanitize_uri",
                "factory": "airflow_provider_ips.assets.iceberg.iceberg_asset",
                "to_openlineage_converter": "airflow_provider_ips.assets.openlineage.convert_asset",
            }
        ],
        "extra-links": [
            "airflow_provider_ips.links.captures.CaptureRecordLink",
            "airflow_provider_ips.links.captures.SupersededByLink",
            "airflow_provider_ips.links.captures.SupersedesLink",
            "airflow_provider_ips.links.captures.AssetsLink",
        ],
        "cli": ["airflow_provider_ips.cli.definition.get_ips_cli_commands"],
        "config": {
            SECTION: {
                "description": "Defaults of Incremental Processing Support.",
                "options": {option.pop("name"): option for option in map(asdict, OPTIONS)},
            }
        },
    }


def _modules(*names: str) -> list[dict[str, Any]]:
    return [{"integration-name": _INTEGRATION, "python-modules": [f"airflow_provider_ips.{name}" for name in names]}]
