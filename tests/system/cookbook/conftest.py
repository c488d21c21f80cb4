"""An Airflow with all providers of the cookbook, in the environment that `make test-cookbook` builds."""

import json
import os

from tests.kit.airflow import HOME, airflow_database, lake, run_dag

__all__ = ["airflow_database", "lake", "run_dag"]

# dag-factory reports over the network what it has built, unless it is told not to.
os.environ["DO_NOT_TRACK"] = "1"

# A cluster that no test calls: without one, the provider does not describe the pod that it would create. The client
# reads the variable when it is imported.
CLUSTER = {
    "apiVersion": "v1",
    "kind": "Config",
    "current-context": "none",
    "contexts": [{"name": "none", "context": {"cluster": "none", "user": "none"}}],
    "clusters": [{"name": "none", "cluster": {"server": "https://127.0.0.1:1"}}],
    "users": [{"name": "none", "user": {}}],
}
(HOME / "kubeconfig").write_text(json.dumps(CLUSTER))
os.environ["KUBECONFIG"] = str(HOME / "kubeconfig")
