"""Every setting that the stack passes is read by something; a setting that nothing reads is a wish."""

import re
import zipfile
from pathlib import Path
from typing import Any

import pyspark
import pytest

from airflow_provider_ips.get_provider_info import get_provider_info
from scripts.spark_jars import JARS
from tests.docs.docker.stack import DOCKER, ROOT, ask_airflow, services

SERVICES = services()
AIRFLOW_CONFIGURATION = re.compile(r"AIRFLOW__\w+?__\w+")
CATALOG_PROPERTY = re.compile(r"CATALOG_\w+")

# Options without a default, which Airflow learns of from a provider that only the image has.
OF_PROVIDERS_IN_THE_IMAGE = {"AIRFLOW__CELERY__RESULT_BACKEND": "apache-airflow-providers-celery"}

# All other variables, per image, and who reads them. Where the reader's source is at hand, it is looked up: a file and
# the text expected in it, or a class of a jar. The others are part of what these images document.
S3_CLIENT = {
    "AWS_ACCESS_KEY_ID": "the AWS SDK for Java 2",
    "AWS_SECRET_ACCESS_KEY": "the AWS SDK for Java 2",
    "AWS_REGION": "the AWS SDK for Java 2, and the S3 client of Arrow",
}
READ_BY: dict[str, dict[str, Any]] = {
    "ips-airflow": {
        **S3_CLIENT,
        "AIRFLOW_ADMIN_PASSWORD": (DOCKER / "compose.yaml", "$$AIRFLOW_ADMIN_PASSWORD"),
        "AIRFLOW_CONN_LAKE": "Airflow's own secrets backend for the environment: test_connections.py",
        "AIRFLOW_CONN_SPARK_DEFAULT": "Airflow's own secrets backend for the environment: test_connections.py",
        "DUMB_INIT_SETSID": "dumb-init, the first process of the image",
        "S3_ENDPOINT": (DOCKER / "storage" / "make_bucket.py", 'os.environ["S3_ENDPOINT"]'),
        "SPARK_CONF_DIR": ("spark-launcher", "org/apache/spark/launcher/AbstractCommandBuilder"),
    },
    "ips-spark": {
        **S3_CLIENT,
        "SPARK_CONF_DIR": ("spark-launcher", "org/apache/spark/launcher/AbstractCommandBuilder"),
        "SPARK_MASTER_OPTS": ("spark-launcher", "org/apache/spark/launcher/SparkClassCommandBuilder"),
    },
    "ips-catalog": S3_CLIENT,
    "postgres": {
        "POSTGRES_PASSWORD": "the image's entrypoint",
        "AIRFLOW_DB_PASSWORD": (DOCKER / "postgres" / "databases.sh", '"$AIRFLOW_DB_PASSWORD"'),
        "LAKE_DB_PASSWORD": (DOCKER / "postgres" / "databases.sh", '"$LAKE_DB_PASSWORD"'),
    },
    "redis": {"REDISCLI_AUTH": "redis-cli, which the health check calls"},
    "chrislusf/seaweedfs": {
        "AWS_ACCESS_KEY_ID": "weed s3: who has it may do everything",
        "AWS_SECRET_ACCESS_KEY": "weed s3: who has it may do everything",
    },
}

# The classes of Iceberg that define the catalog properties which the REST catalog and Spark are given.
CATALOG_PROPERTIES = {
    "catalog-impl": "org/apache/iceberg/CatalogProperties",
    "io-impl": "org/apache/iceberg/CatalogProperties",
    "uri": "org/apache/iceberg/CatalogProperties",
    "warehouse": "org/apache/iceberg/CatalogProperties",
    "s3.endpoint": "org/apache/iceberg/aws/s3/S3FileIOProperties",
    "s3.path-style-access": "org/apache/iceberg/aws/s3/S3FileIOProperties",
    # The prefix of whatever is handed to the JDBC driver.
    "jdbc.user": "org/apache/iceberg/jdbc/JdbcCatalog",
    "jdbc.password": "org/apache/iceberg/jdbc/JdbcCatalog",
    "type": "org/apache/iceberg/CatalogUtil",
}


@pytest.fixture(scope="module")
def iceberg_classes():
    (iceberg,) = [jar.path for jar in JARS if jar.artifact.startswith("iceberg-spark-runtime")]
    with zipfile.ZipFile(iceberg) as jar:
        yield jar


@pytest.fixture(scope="module")
def spark_settings():
    """The names of all settings that Spark itself defines, as they stand in its classes."""
    homes = {
        "spark-core": "org/apache/spark/internal/config/",
        "spark-launcher": "org/apache/spark/launcher/SparkLauncher",
        "spark-sql-api": "org/apache/spark/sql/internal/SqlApiConf",
        "spark-catalyst": "org/apache/spark/sql/internal/",
    }
    found = set()
    for artifact, home in homes.items():
        with zipfile.ZipFile(spark_jar(artifact)) as jar:
            for name in jar.namelist():
                if name.startswith(home):
                    found |= set(re.findall(rb"spark\.[A-Za-z.]+\w", jar.read(name)))
    return {name.decode() for name in found}


def spark_jar(artifact):
    (path,) = (Path(pyspark.__file__).parent / "jars").glob(f"{artifact}_2.13-*.jar")
    return path


def spark_defaults():
    lines = (DOCKER / "spark" / "spark-defaults.conf").read_text().splitlines()
    return dict(line.split(maxsplit=1) for line in lines if line and not line.startswith("#"))


def image_of(service):
    return service.raw["image"].rpartition(":")[0]


def airflow_environment():
    return {k: v for service in SERVICES.values() for k, v in service.environment.items() if k.startswith("AIRFLOW__")}


def property_of(variable):
    """How the REST catalog's image makes a property of a variable."""
    return variable.removeprefix("CATALOG_").replace("__", "-").replace("_", ".").lower()


def test_airflow_and_we_know_every_option_and_none_is_a_former_one(tmp_path):
    kinds = ask_airflow("options", airflow_environment(), tmp_path)

    assert kinds == {
        variable: "unknown" if variable in OF_PROVIDERS_IN_THE_IMAGE else "known" for variable in airflow_environment()
    }


def test_an_option_that_was_renamed_or_never_was_would_be_found(tmp_path):
    wrong = {"AIRFLOW__WEBSERVER__SECRET_KEY": "deprecated", "AIRFLOW__IPS__CHECKPOINT_STOER": "unknown"}

    assert ask_airflow("options", dict.fromkeys(wrong, "x"), tmp_path) == wrong


def test_our_own_options_are_all_there_with_the_value_they_have_anyway():
    """A reader of the file sees what could be changed, and changing nothing changes nothing."""
    options = get_provider_info()["config"]["ips"]["options"]
    passed = {name: value for name, value in airflow_environment().items() if name.startswith("AIRFLOW__IPS__")}

    assert passed == {f"AIRFLOW__IPS__{name.upper()}": option["default"] for name, option in options.items()}


def test_our_own_options_are_read_by_our_own_code():
    """Each by its name in `config.py`, outside of that module."""
    package = ROOT / "airflow_provider_ips"
    source = "".join(path.read_text() for path in package.rglob("*.py") if path != package / "config.py")

    for name in get_provider_info()["config"]["ips"]["options"]:
        assert f"config.{name}()" in source or f"config.{name.upper()}.read()" in source, name


@pytest.mark.parametrize("service", SERVICES.values(), ids=lambda service: service.name)
def test_every_other_variable_has_a_reader(service):
    for variable in service.environment:
        if AIRFLOW_CONFIGURATION.fullmatch(variable):
            assert image_of(service) == "ips-airflow"
        elif CATALOG_PROPERTY.fullmatch(variable):
            assert image_of(service) == "ips-catalog"
            assert property_of(variable) in CATALOG_PROPERTIES
        else:
            reader = READ_BY[image_of(service)][variable]
            assert isinstance(reader, str) or mentions(reader, variable), f"{reader} does not read {variable}"


def mentions(reader, variable):
    place, expected = reader
    if isinstance(place, Path):
        return expected in place.read_text()
    with zipfile.ZipFile(spark_jar(place)) as jar:
        return variable.encode() in jar.read(f"{expected}.class")


def test_no_reader_is_listed_for_what_nobody_passes():
    passed = {(image_of(service), name) for service in SERVICES.values() for name in service.environment}

    assert {(image, name) for image, readers in READ_BY.items() for name in readers} <= passed


@pytest.mark.parametrize("name", CATALOG_PROPERTIES)
def test_iceberg_defines_the_catalog_properties(iceberg_classes, name):
    home = CATALOG_PROPERTIES[name]
    defined = iceberg_classes.read(f"{home}.class")

    assert (b"jdbc." if name.startswith("jdbc.") else name.encode()) in defined


def test_spark_knows_every_setting_of_every_job(spark_settings):
    catalog = "spark.sql.catalog.lake"
    for name in spark_defaults():
        if name.startswith(f"{catalog}."):
            assert name.removeprefix(f"{catalog}.") in CATALOG_PROPERTIES
        else:
            assert name == catalog or name in spark_settings


def test_the_masters_rest_interface_is_closed_by_a_setting_that_spark_knows(spark_settings):
    options = SERVICES["spark-master"].environment["SPARK_MASTER_OPTS"]

    assert options == "-Dspark.master.rest.enabled=false"
    assert "spark.master.rest.enabled" in spark_settings
