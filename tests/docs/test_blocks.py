"""Every fenced block in README and docs is run or parsed."""

import ast
import configparser
import difflib
import fnmatch
import json
import re
import subprocess
import tomllib
from collections import Counter
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest
import yaml

from tests.docs.conftest import clean_environment, command_lines, dag_file_name, documented_commands
from tests.kit.pages import PAGES, ROOT, all_blocks, blocks, prose, relative

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.xdist_group("docs")

SHELL = ("bash", "sh")
LANGUAGES = {*SHELL, "diff", "ini", "json", "properties", "python", "sql", "text", "toml", "yaml"}
DIRECTIVES = {"drawing", "from", "save", "twins", "install"}
RUN_WITH_BASH = "docs/tutorial.md"  # by test_tutorial.py


def named(*languages):
    return [pytest.param(block, id=str(block)) for block in all_blocks(*languages)]


def directed(name):
    return [pytest.param(block, id=str(block)) for block in all_blocks() if block.directive == name]


def test_every_block_has_a_language_that_is_tested():
    """A block in a language that no test reads could say anything."""
    unknown = [(str(b), b.language, b.directive) for b in all_blocks() if b.language not in LANGUAGES]
    assert not unknown
    assert not [(str(b), b.directive) for b in all_blocks() if b.directive and b.directive not in DIRECTIVES]


@pytest.mark.parametrize("page", [relative(page) for page in PAGES])
def test_python_blocks_run_in_order_and_print_what_the_page_says(page, run_page):
    """A reader who types a page's Python from top to bottom sees the output that the page shows."""
    runnable = [b for b in blocks(ROOT / page) if b.language == "python" and not b.is_dag_file and not b.directive]
    outputs = run_page(page) if runnable else {}
    shown = expected_outputs(page)
    for block in runnable:
        assert_output(f"{page}:{block.line}", outputs[block.line], shown.get(block.line, ""))


def expected_outputs(page):
    """The text block behind a Python block is its output; without one it prints nothing."""
    found = blocks(ROOT / page)
    return {
        before.line: after.text
        for before, after in pairwise(found)
        if before.language == "python" and not before.directive and after.language == "text" and not after.directive
    }


def assert_output(where, printed, shown):
    """`...` in the page stands for what differs from run to run."""
    pattern = "*".join(re.sub(r"([\[*?])", r"[\1]", part) for part in shown.strip().split("..."))
    matches = fnmatch.fnmatchcase(printed.strip(), pattern)
    difference = "\n".join(difflib.ndiff(shown.splitlines(), printed.splitlines()))
    assert matches, f"{where} prints something else than the page says:\n{difference}"


@pytest.mark.parametrize("page", [relative(page) for page in PAGES])
def test_a_text_block_is_the_output_of_something(page):
    """Output that nothing checks goes stale: it stands behind a block that prints it, or says which file does."""
    found = blocks(ROOT / page)
    for before, block in zip([None, *found], found, strict=False):
        if block.language == "text" and block.directive is None:
            assert before is not None, str(block)
            printed = "bash" if page == RUN_WITH_BASH else "python"
            assert (before.language, before.directive) == (printed, None), str(block)


@pytest.mark.parametrize("block", [b for b in named("python") if b.values[0].is_dag_file and not b.values[0].directive])
def test_dag_blocks_load_without_import_errors(block, airflow_says):
    """A DAG in the docs is a file that the DAG processor accepts."""
    name = dag_file_name(block)
    assert name not in airflow_says["errors"], airflow_says["errors"].get(name)
    assert name in {dag["file"] for dag in airflow_says["dags"].values()}, "it makes no DAG, or one of a name taken"


@pytest.mark.parametrize("block", named("python"))
def test_python_blocks_compile(block):
    """Also those that are shown as parts of files."""
    compile(block.text, str(block), "exec")


@pytest.mark.parametrize("block", directed("from"))
def test_a_block_quoted_from_a_file_stands_there(block):
    """Quoted code is run by the file's own tests, so it must be the file's: Python statement by statement."""
    if not block.value.endswith(".py"):
        assert block.text in (ROOT / block.value).read_text(), f"{block.value} does not say that"
        return
    inside = [
        shape(node) for node in ast.walk(ast.parse((ROOT / block.value).read_text())) if isinstance(node, ast.stmt)
    ]
    strange = [ast.unparse(node) for node in ast.parse(block.text).body if shape(node) not in inside]
    assert not strange, f"{block.value} does not say: " + "\n".join(strange)


def test_sql_is_quoted_from_a_file():
    """No test here runs SQL, so it is that of a file which others run."""
    assert not [str(block) for block in all_blocks("sql") if block.directive != "from"]


def shape(node):
    """Code apart from its layout; indented text counts as the same text."""
    return re.sub(r"(\\n|\s)+", " ", ast.dump(node))


def test_a_diff_is_what_two_files_differ_in():
    """What a page says was added or removed is all of that, and what it leaves out is in both files."""
    for block in all_blocks("diff"):
        assert block.directive == "twins", f"{block} is a diff of nothing in particular"
        old, new = (normal(dag_of(ROOT / name)) for name in (block.value or "").split())
        assert bag(block, "-") == old - new
        assert bag(block, "+") == new - old
        assert bag(block, " ") <= old & new


def bag(block, sign):
    return normal([line[1:] for line in block.text.splitlines() if line.startswith(sign)])


def dag_of(path):
    """The lines from the DAG on; what stands above is its name and its description."""
    lines = path.read_text().splitlines()
    return lines[lines.index("with DAG(") :]


def normal(lines):
    return Counter(line.strip() for line in lines if line.strip())


@pytest.mark.parametrize("block", named(*SHELL))
def test_bash_blocks_parse(block):
    """By the shell itself, without running them."""
    done = subprocess.run(["bash", "-n"], input=block.text, text=True, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr


def test_airflow_command_lines_are_accepted(airflow_says):
    """Airflow's own parser takes every command with every option that the docs write."""
    lines = [(where, words) for where, words in documented_commands() if words[0] == "airflow"]
    wrong = [(line, said) for line, said in zip(lines, airflow_says["commands"], strict=True) if said]
    assert not wrong


def test_commands_named_in_prose_exist(airflow_says):
    """A command in a sentence is typed as readily as one in a block."""
    targets = make_targets()
    for page in PAGES:
        text = "\n".join(prose(page))
        unknown = set(re.findall(r"`make ([a-z-]+)", text)) - targets
        unknown |= set(re.findall(r"`(?:airflow )?ips ([a-z-]+)", text)) - set(airflow_says["subcommands"])
        assert not unknown, f"{relative(page)} names commands that do not exist: {unknown}"


def test_commands_that_errors_and_logs_name_exist(airflow_says):
    """A remedy that cannot be typed is none."""
    commands = airflow_says["subcommands"]
    for path in sorted((ROOT / "airflow_provider_ips").rglob("*.py")):
        for name, rest in re.findall(r"airflow ips ([a-z-]+)([^`'\"\n]*)", path.read_text()):
            assert name in commands, f"{relative(path)} names `airflow ips {name}`"
            assert set(re.findall(r"--[a-z-]+", rest)) <= set(commands[name]), f"{relative(path)}: {name}{rest}"


def test_other_command_lines_name_what_exists():
    """Make targets are in the Makefile, scripts and extras in the repository or the page."""
    saved = {b.value for b in all_blocks() if b.directive == "save"}
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    for where, words in documented_commands():
        if words[0] == "make":
            assert {w for w in words[1:] if "=" not in w and not w.startswith("-")} <= make_targets(), where
        if words[0] == "python" and words[1].endswith(".py"):
            assert words[1] in saved or (ROOT / words[1]).exists(), where
        for extra in re.findall(r"airflow-provider-ips\[([a-z,]+)\]", " ".join(words)):
            assert set(extra.split(",")) <= set(extras), where


def make_targets():
    return set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))


def test_data_blocks_parse():
    """Each by the parser of its language."""
    parsers: dict[str, Callable[[str], object]] = {
        "yaml": yaml.safe_load,
        "json": json.loads,
        "toml": tomllib.loads,
        "properties": settings,
    }
    for block in all_blocks(*parsers):
        assert parsers[block.language](block.text) is not None, str(block)


def settings(text):
    """A key and a value in each line, as in spark-defaults.conf and in the file of a catalog of Trino."""
    trino = text.startswith("connector.name=")
    pairs = [line.split("=" if trino else None, maxsplit=1) for line in text.splitlines()]
    assert all(len(pair) == 2 and pair[1] for pair in pairs)
    assert all(trino or name.startswith("spark.") for name, _ in pairs)
    return dict(pairs)


@pytest.mark.parametrize("block", named("ini"))
def test_settings_in_ini_blocks_are_ours(block, airflow_says):
    """A setting that nobody reads would be believed."""
    parsed = configparser.ConfigParser()
    parsed.read_string(block.text)
    assert parsed.sections() == ["ips"]
    assert set(parsed["ips"]) <= set(airflow_says["options"])


def test_commands_are_split_as_the_shell_would():
    """Continued lines are one command; comments and assignments are none."""
    script = "# first's\nA=1 airflow ips \\\n  list --x 'a b'  # why\nB=2\ncd x && make demo\npip install 'c\nd'"
    wanted = [["airflow", "ips", "list", "--x", "a b"], ["cd", "x"], ["make", "demo"], ["pip", "install", "c\nd"]]
    assert list(command_lines(script)) == wanted


def test_pages_run_in_an_environment_of_their_own(tmp_path, monkeypatch):
    """The reader's Airflow and catalogs stay out of it."""
    monkeypatch.setenv("PYICEBERG_CATALOG__PROD__URI", "https://example.invalid")
    assert "PYICEBERG_CATALOG__PROD__URI" not in clean_environment(tmp_path)
