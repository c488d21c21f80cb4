"""What the results look like in Markdown: the page's tables and the summary's excerpt."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final

from benchmarks.compare.judge import Verdict

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    Results = dict[str, Any]

BEGIN, END = "<!-- written by make compare, from here -->", "<!-- to here -->"
MARKS: Final = {Verdict.SILENT: f"**{Verdict.SILENT}**"}
ONLY_THE_LOG = " ¹"


def write_into(page: Path, text: str) -> None:
    """Replace what stands between the two comments."""
    before, _, rest = page.read_text().partition(BEGIN)
    _, _, after = rest.partition(END)
    page.write_text(f"{before}{BEGIN}\n\n{text}\n{END}{after}")


def written_in(page: Path) -> str:
    """What stands between the two comments."""
    return page.read_text().partition(BEGIN)[2].partition(END)[0].strip()


def whole_page(results: Results) -> str:
    """Everything between the page's comments."""
    return "\n".join([_how_it_was_made(results), "", *_verdicts(results), "", *_details(results)]) + "\n"


def excerpt(results: Results) -> str:
    """How often each contender came to each verdict."""
    counts = Counter((cell["contender"], cell["verdict"]) for cell in results["cells"])
    rows = [[title, *(str(counts[title, verdict]) for verdict in Verdict)] for title in (results["contenders"])]
    return "\n".join(_table([f"of {len(results['scenarios'])} histories", *Verdict], rows)) + "\n"


def _how_it_was_made(results: Results) -> str:
    versions = ", ".join(f"{name} {version}" for name, version in results["versions"].items())
    return f"Made on {results['date']} by `{results['command']}` on {results['machine']}, with {versions}."


def _verdicts(results: Results) -> list[str]:
    cells = {(cell["scenario"], cell["contender"]): cell for cell in results["cells"]}
    rows = [
        [scenario["title"], *(_mark(cells[scenario["title"], title]) for title in results["contenders"])]
        for scenario in results["scenarios"]
    ]
    return ["## The table", "", *_table(["history", *results["contenders"]], rows)]


def _mark(cell: dict[str, Any]) -> str:
    verdict = Verdict(cell["verdict"])
    mark = ONLY_THE_LOG if verdict is Verdict.SILENT and cell["log_is_complete"] else ""
    return MARKS.get(verdict, verdict.value) + mark


def _details(results: Results) -> Iterable[str]:
    """History by history: what it is, and what each that was not right came to."""
    yield from ("## History by history", "")
    for scenario in results["scenarios"]:
        yield from (f"**{scenario['title']}.** {scenario['what']}", "")
        told = [c for c in results["cells"] if c["scenario"] == scenario["title"] and c["why"]]
        yield from (f"- {cell['contender']}, {cell['verdict']}: {_quoted(cell)}" for cell in told)
        yield from [""] if told else []


def _quoted(cell: dict[str, Any]) -> str:
    """Messages are code; what the judge says is prose."""
    return f"`{cell['why']}`" if cell["verdict"] == Verdict.LOUD else f"{cell['why']}."


def _table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    lines = [header, ["---"] * len(header), *rows]
    return ["| " + " | ".join(line) + " |" for line in lines]
