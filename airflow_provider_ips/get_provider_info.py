"""What Airflow asks an installed provider about itself."""

from __future__ import annotations

from typing import Any

_INTEGRATION = "Incremental Processing Support"


def get_provider_info() -> dict[str, Any]:
    """Every Airflow command calls this when it starts, so it reads no file and imports nothing else."""
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
        "config": {"ips": {"description": "Defaults of Incremental Processing Support.", "options": _OPTIONS}},
    }


def _modules(*names: str) -> list[dict[str, Any]]:
    return [{"integration-name": _INTEGRATION, "python-modules": [f"airflow_provider_ips.{name}" for name in names]}]


_OPTIONS: dict[str, dict[str, str]] = {
    "checkpoint_store": {
        "description": (
            "Where checkpoints live: ``variable`` keeps one Airflow Variable per consumer, readable in the UI;\n"
            "``iceberg`` one small log table per consumer, with compare-and-set, for several deployments.\n"
        ),
        "version_added": "0.1.0",
        "type": "string",
        "example": "variable",
        "default": "variable",
    },
    "checkpoint_conn_id": {
        "description": (
            "The Iceberg connection behind which ``checkpoint_store = iceberg`` keeps its logs.\n"
            "Empty: each capture's own connection, and ``iceberg_default`` for commands.\n"
        ),
        "version_added": "0.1.0",
        "type": "string",
        "example": "lake",
        "default": "",
    },
    "checkpoint_namespace": {
        "description": (
            "The namespace in which ``checkpoint_store = iceberg`` makes its logs. It is created when missing.\n"
        ),
        "version_added": "0.1.0",
        "type": "string",
        "example": "ops.ips_checkpoints",
        "default": "ips_checkpoints",
    },
    "icdc_namespace": {
        "description": (
            "The namespace in which ICDC tables are made, for captures that name none. It is created when missing.\n"
        ),
        "version_added": "0.1.0",
        "type": "string",
        "example": "scratch.icdc",
        "default": "icdc",
    },
    "history_length": {
        "description": (
            "How many committed captures a checkpoint remembers. Clearing a run replays its range only while it is\n"
            "remembered; each entry makes the document, which is read and written as a whole, a little longer.\n"
        ),
        "version_added": "0.1.0",
        "type": "integer",
        "example": "200",
        "default": "50",
    },
}
