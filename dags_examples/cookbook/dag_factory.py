"""The DAGs of dag_factory.yaml, by dag-factory: what this file does is all the Python there is."""

from pathlib import Path

from dagfactory import load_yaml_dags

load_yaml_dags(globals_dict=globals(), config_filepath=str(Path(__file__).with_suffix(".yaml")))
