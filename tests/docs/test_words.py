"""Plain English in what people read: errors, log lines, help texts, docstrings and comments of the package, and docs.

The list is of words that went wrong here before. Each pattern leaves out the uses that are good English.
"""

import ast
import io
import re
import tokenize

import pytest

from tests.kit.pages import PAGES, ROOT, relative

WORDS = {
    r"anew": "again",
    r"who(?:m)?ever": "anyone who, or name them",
    r"nobody": "no one, or name them",
    r"for want of": "because there is none",
    r"lets (?:it |them |them all )?go": "releases",
    r"made of(?! this)": "consists of",
    r"pass(?:es|ed)? over": "skips",
    r"(?<!there )(?:is|are|was|were|be) no (?!longer|other|one\b|more|later|earlier)[a-z]+": "is not a",
    r"asked for": "requested",
    r"(?:tells|told|telling)(?! apart|.{3,20} apart|.{3,20} from)": "reported, says, shows",
    r"(?:stands?|stood)(?! still| for| in (?:for|place)| alone| beside)": "is",
    r"(?<!fall )(?<!fell )(?<!left )behind": "downstream, after",
    r"gone(?! wrong)": "deleted, expired, missing",
    r"shall": "is to, will, must",
    r"thereof|therein|whereof|wherein|thereupon": "of it, in it",
    r"hardly ever|oftener": "rarely, more often",
    r", for (?:it|they|he|she|we|this) (?:is|are|was|were|has|have|would|can|cannot|will)": "because",
    r"wish(?:es|ed)?": "wants, requests",
    r"taken for(?! granted)": "mistaken for, treated as",
    r"a text (?:of|or|such as|that may)|as one text|not texts": "a string",
}
PATTERNS = {re.compile(rf"\b(?:{word})\b", re.IGNORECASE): better for word, better in WORDS.items()}
CODE = re.compile(r"```.*?```|`[^`\n]*`|\]\([^)]*\)", re.DOTALL)
SOURCES = sorted(path for folder in ("airflow_provider_ips", "dags_examples") for path in (ROOT / folder).rglob("*.py"))


def sentences(source):
    """Texts of a Python file that have more than one word: docstrings and messages, f-strings as a whole; comments."""
    found = [
        (node.lineno, _text(node))
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Constant | ast.JoinedStr)
    ]
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    found += [(token.start[0], token.string) for token in tokens if token.type == tokenize.COMMENT]
    return [(line, text) for line, text in found if " " in text.strip()]


def _text(node):
    if isinstance(node, ast.JoinedStr):
        return "".join(str(part.value) if isinstance(part, ast.Constant) else "…" for part in node.values)
    return node.value if isinstance(node.value, str) else ""


def prose(page):
    """Paragraphs and lines of tables, without code and addresses."""
    text = CODE.sub(lambda code: "…" + "\n" * code.group().count("\n"), page)
    return [(text.count("\n", 0, start.start()) + 1, start.group()) for start in re.finditer(r".+(?:\n.+)*", text)]


def wrong(texts):
    plain = [(line, " ".join(CODE.sub("…", text).split())) for line, text in texts]
    return [
        f"line {line}: {found.group()!r} (better: {better}) in {text[max(0, found.start() - 60) : found.end() + 40]!r}"
        for line, text in plain
        for pattern, better in PATTERNS.items()
        for found in pattern.finditer(text)
    ]


@pytest.mark.parametrize("path", SOURCES, ids=relative)
def test_code_speaks_plain_english(path):
    assert not wrong(sentences(path.read_text()))


@pytest.mark.parametrize("page", PAGES, ids=relative)
def test_docs_speak_plain_english(page):
    assert not wrong(prose(page.read_text()))


@pytest.mark.parametrize(
    "source",
    [
        '"""Nobody reads it."""',
        'raise InputError("the table is gone", consequence="no rows", remedy="wait")',
        'raise InputError(f"{table} is no table", consequence="", remedy="")',
        'log.info("tasks behind %s are skipped", task)',
        'Param(None, description="What was asked for")',
        'parser.add_argument("--all", help="make all tables "\n    "anew")',
        "x = 1  # a file that is passed over",
        'raise TypeError("it is not a text of digits")',
    ],
)
def test_a_wrong_word_is_found_wherever_it_is_said(source):
    assert wrong(sentences(source))


@pytest.mark.parametrize(
    "text",
    [
        "there are no rows, and it is no longer read",
        "two that cannot be told apart",
        "the underlying table, which it stands for",
        "`gone` and the ones that fall behind",
        "beyond all bounds, for the same reason",
    ],
)
def test_good_english_passes(text):
    assert not wrong(prose(text))
