"""What the images are made of: pinned, of one version everywhere, and buildable from what git has."""

import re
import subprocess
import tomllib

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from scripts.spark_jars import JARS
from tests.docs.docker.stack import DOCKER, ROOT, services

SERVICES = services()
DOCKERFILE = (DOCKER / "Dockerfile").read_text().replace("\\\n", " ")
ARGUMENTS = dict(re.findall(r"^ARG (\w+)=(\S+)$", DOCKERFILE, re.MULTILINE))
BASE_IMAGES = [value for name, value in ARGUMENTS.items() if name.endswith("_IMAGE")]
STAGES = re.findall(r"^FROM \S+ AS (\w+)$", DOCKERFILE, re.MULTILINE)
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def pins(path):
    lines = [line for line in path.read_text().splitlines() if line and not line.startswith("#")]
    found = [Requirement(line) for line in lines]
    return {canonicalize_name(pin.name): str(pin.specifier).removeprefix("==") for pin in found}


REQUIREMENTS = pins(DOCKER / "requirements.txt")


def tag(image):
    return image.rpartition(":")[2]


@pytest.mark.parametrize("image", [*BASE_IMAGES, *(service.raw["image"] for service in SERVICES.values())])
def test_an_image_is_pinned_to_one_release(image):
    """A tag with a patch level: `latest`, `17` and `17-bookworm` are another image every month."""
    assert re.fullmatch(r"[\w./-]+:\d+\.\d+(\.\d+)?([._-][\w.-]+)?", image)
    assert len(re.findall(r"\d+", tag(image).split("-")[0])) >= 2


def test_every_stage_starts_from_a_pinned_image_or_another_stage():
    for base in re.findall(r"^FROM (\S+)", DOCKERFILE, re.MULTILINE):
        assert base in STAGES or base.strip("${}") in ARGUMENTS, base


def test_what_is_built_here_is_a_stage_of_the_dockerfile_and_the_rest_is_not_built():
    for service in SERVICES.values():
        assert service.raw["image"].startswith("ips-") == (service.target is not None)
        if "build" in service.raw:
            assert service.raw["build"] == {
                "context": "..",
                "dockerfile": "docker/Dockerfile",
                "target": service.target,
            }
            assert service.target in STAGES


def test_an_image_is_built_once_for_all_services_that_share_it():
    """By one that the others wait for, so that none starts before its image is there."""
    for image in {service.raw["image"] for service in SERVICES.values() if service.target}:
        (builder,) = (s.name for s in SERVICES.values() if s.raw["image"] == image and "build" in s.raw)
        sharing = {s.name for s in SERVICES.values() if s.raw["image"] == image} - {builder, "storage-init"}
        assert all(builder in SERVICES[name].waits_for for name in sharing), image


def test_airflow_is_of_one_version():
    version = tag(ARGUMENTS["AIRFLOW_IMAGE"]).split("-")[0]

    assert version == REQUIREMENTS["apache-airflow"]
    assert f"COPY tests/floors/airflow-{version}.txt " in DOCKERFILE
    assert {tag(s.raw["image"]) for s in SERVICES.values() if s.target == "airflow"} == {version}
    (supported,) = [Requirement(r) for r in PROJECT["dependencies"] if Requirement(r).name == "apache-airflow"]
    assert version in supported.specifier


def test_the_catalog_is_of_one_version():
    assert {tag(s.raw["image"]) for s in SERVICES.values() if s.target == "catalog"} == {
        tag(ARGUMENTS["CATALOG_IMAGE"])
    }


def test_spark_is_of_one_version():
    version = ARGUMENTS["PYSPARK_VERSION"]
    extra = [Requirement(r) for r in PROJECT["optional-dependencies"]["spark"]]

    assert {r.name for r in extra} == {"pyspark", "pyspark-client"}
    assert all(version in r.specifier for r in extra)
    assert REQUIREMENTS["pyspark"] == REQUIREMENTS["pyspark-client"] == version
    assert {tag(s.raw["image"]) for s in SERVICES.values() if s.target == "spark"} == {version}


def test_driver_and_executors_run_on_one_python():
    """PySpark refuses to work across minor versions."""
    (of_airflow,) = re.findall(r"-python(3\.\d+)$", ARGUMENTS["AIRFLOW_IMAGE"])

    assert re.findall(r"^python:(3\.\d+)\.", ARGUMENTS["PYTHON_IMAGE"]) == [of_airflow]
    assert f"Programming Language :: Python :: {of_airflow}" in PROJECT["classifiers"]


def test_airflows_constraints_decide_all_versions_but_those_of_spark():
    """`make floors` installs the wheel under the same file."""
    pinned = pins(ROOT / "tests" / "floors" / f"airflow-{REQUIREMENTS['apache-airflow']}.txt")
    left_out = set(re.findall(r"grep -v '\^([\w-]+)=='", DOCKERFILE))

    assert left_out == {"pyspark-client"}
    for name, version in REQUIREMENTS.items():
        assert (name in pinned and name not in left_out) != bool(version), f"{name} has two versions, or none"


def test_what_the_constraints_pin_is_what_the_package_supports():
    """Everything that an installation in the image would choose."""
    chosen = pins(ROOT / "tests" / "floors" / f"airflow-{REQUIREMENTS['apache-airflow']}.txt")
    chosen |= {name: version for name, version in REQUIREMENTS.items() if version}

    for line in [*PROJECT["dependencies"], *PROJECT["optional-dependencies"]["spark"]]:
        required = Requirement(line)
        assert chosen[canonicalize_name(required.name)] in required.specifier, line


def test_shell_in_the_dockerfile_parses_and_stops_at_the_first_error():
    """`;` would go on after one."""
    for script in re.findall(r"^RUN (.+)$", DOCKERFILE, re.MULTILINE):
        subprocess.run(["bash", "-n", "-c", script], check=True, timeout=30)
        assert ";" not in script
        assert "pip install" not in script or "--no-cache-dir" in script


def test_every_jar_is_the_one_that_was_tested():
    lines = [line.split() for line in (DOCKER / "jars.sha256").read_text().splitlines()]
    by_name = {path.split("/")[1]: digest for digest, path in lines}
    tested = {jar.name_given_by_ivy: jar.sha256 for jar in JARS if jar.artifact != "sqlite-jdbc"}
    aws = f"org.apache.iceberg_iceberg-aws-bundle-{ARGUMENTS['ICEBERG_VERSION']}.jar"

    assert by_name.keys() == {*tested, aws}
    assert {name: by_name[name] for name in tested} == tested
    assert all(jar.version in ARGUMENTS.values() for jar in JARS if jar.name_given_by_ivy in tested)


def test_spark_finds_the_jars_where_both_images_have_them():
    (target,) = set(re.findall(r"^COPY --from=jars /opt/jars/iceberg (\S+)$", DOCKERFILE, re.MULTILINE))
    defaults = (DOCKER / "spark" / "spark-defaults.conf").read_text()

    assert re.findall(r"extraClassPath\s+(\S+)", defaults) == [f"{target}/*"] * 2


def test_what_is_copied_into_images_is_in_git_and_reaches_the_engine():
    allowed = [line[1:] for line in (DOCKER / "Dockerfile.dockerignore").read_text().splitlines() if line[:1] == "!"]
    copied = set()
    for sources in re.findall(r"^COPY (?!--from)(?:--\S+ )*(.+) \S+$", DOCKERFILE, re.MULTILINE):
        copied |= set(sources.split())

    assert copied == set(allowed)
    for path in copied:
        tracked = subprocess.run(["git", "ls-files", "--", path], cwd=ROOT, capture_output=True, check=True, timeout=60)
        assert tracked.stdout, f"{path} is not in git"
