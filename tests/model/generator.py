"""Random stories. Each has a theme, and few kinds of actions, so that rare combinations meet often enough."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING, Any, Final

from airflow_provider_ips.core.settings import ALL_OPERATIONS
from tests.model.consumer import CRASHES
from tests.model.jobs import FOLLOWS_APPENDS, FOLLOWS_CHANGES
from tests.model.story import Story

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from tests.model.story import Action

TABLE_ACTIONS: Final[dict[str, Callable[[Random, int], Action]]] = {
    "append": lambda r, t: ("append", t, r.randint(1, 4), r.randint(0, 1)),
    "append_again": lambda r, t: ("append", t, r.randint(1, 2), r.randint(0, 1), r.choice(("", "", "merged")), 2),
    "insert_overwrite": lambda r, t: ("append", t, r.randint(1, 2), r.randint(0, 1), "overwrite"),
    "empty_commit": lambda _, t: ("empty_commit", t),
    "copy_on_write": lambda r, t: (
        *("copy_on_write", t, r.randint(0, 5), r.randint(0, 3), r.choice(("changes", "goes")), r.choice((0, 0, 1))),
        r.choice(("overwrite", "overwrite", "append", "delete")),
    ),
    "drop_files": lambda r, t: ("drop_files", t, r.randint(0, 5), r.randint(1, 2)),
    "drop_place": lambda r, t: ("drop_place", t, r.randint(0, 1)),
    "drop_all": lambda _, t: ("drop_all", t),
    "merge_on_read": lambda r, t: (
        *("merge_on_read", t, r.randint(0, 5), r.randint(0, 3)),
        *(r.choice(("file", "partition", "vector")), r.choice(("changes", "goes"))),
    ),
    "upsert": lambda r, t: ("upsert", t, r.randint(0, 5), r.randint(0, 3)),
    "undelete": lambda r, t: ("undelete", t, r.randint(0, 3)),
    "compact": lambda r, t: ("compact", t, r.randint(0, 5), r.randint(0, 4), r.choice(("", "", "", "keeps deletes"))),
    "rewrite_manifests": lambda _, t: ("rewrite_manifests", t),
    "add_again": lambda r, t: ("add_again", t, r.randint(0, 5)),
    "add_twice": lambda r, t: ("add_twice", t, r.randint(0, 5)),
    "rollback": lambda r, t: ("rollback", t, r.randint(0, 2)),
    "fork": lambda _, t: ("fork", t),
    "switch": lambda _, t: ("switch", t),
    "publish": lambda _, t: ("publish", t),
    "expire": lambda r, t: ("expire", t, r.choice((0, 0, 1, 2, 3)), r.choice(("cleared", "dangling"))),
    "expire_one": lambda r, t: ("expire_one", t, r.randint(0, 9), r.choice(("cleared", "dangling"))),
    "forget_metadata": lambda _, t: ("forget_metadata", t),
    "upgrade": lambda _, t: ("upgrade", t),
    "recreate": lambda _, t: ("recreate", t),
    "replace_table": lambda r, t: ("replace_table", t, r.randint(0, 5), r.choice((0, 1, 2, 5))),
}
CHANGES: Final = ("drop_files", "drop_place", "merge_on_read", "merge_on_read", "undelete", "copy_on_write")
TOGETHER: Final = {"fork": ("switch", "publish"), "switch": ("fork", "publish"), "publish": ("fork", "switch")}
JOBS: Final = ("insert", "insert", "insert", "upsert", "merge", "filter", "complete", "complete", "log", "log")
PEOPLE: Final = {"clear": 0.2, "late_commit": 0.1, "full": 0.15, "reset": 0.05, "correct": 0.2}

MAX_ACTIONS: Final = 14


@dataclass(frozen=True, slots=True, kw_only=True)
class Theme:
    """What a story is about: what happens often in it. What is left out is as anywhere."""

    kinds: tuple[str, ...] = ()
    """Of these some happen, and few others; with none, any."""

    jobs: tuple[str, ...] = JOBS
    chances: Mapping[str, float] = field(default_factory=dict)
    """What people do, against 1.0 for a run. With none, a few at random."""

    motifs: tuple[str, ...] = ()
    crashes: float = 0.1
    traits: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    settings: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)


THEMES: Final[dict[str, Theme]] = {
    "anything": Theme(),
    "lost history": Theme(
        motifs=("history is lost after a change",),
        kinds=(*CHANGES, "empty_commit", "empty_commit", "expire", "expire_one", "rewrite_manifests", "compact"),
        traits={"keeps_old_metadata": (True, False), "shows_head_only": (False, False, True)},
        settings={"on_gap": ("fail", "full", "resync")},
    ),
    "moved heads": Theme(
        motifs=("the head goes back", "a removal is rolled back"),
        kinds=(
            "drop_files",
            "drop_place",
            *("rollback",) * 2,
            "replace_table",
            "fork",
            "publish",
            "copy_on_write",
            "compact",
        ),
        jobs=("insert", "insert", "upsert", "complete"),
        settings={"on_gap": ("resync", "resync", "full", "fail")},
    ),
    "emptied tables": Theme(
        motifs=("a table is emptied",),
        kinds=("drop_all", "drop_place", "recreate", "rollback", "drop_files", "expire"),
        chances={"full": 0.4, "clear": 0.2},
        settings={"on_gap": ("full", "full", "fail")},
        crashes=0.3,
    ),
    "full refreshes": Theme(
        motifs=("a full refresh fails", "a refresh is overtaken", "a refresh follows a rollback"),
        kinds=(*CHANGES, "drop_all", "compact", "expire"),
        jobs=("merge", "filter", "complete", "complete", "upsert"),
        chances={"full": 0.8, "clear": 0.5},
        settings={"on_gap": ("full", "fail")},
        crashes=0.4,
    ),
    "corrected settings": Theme(
        motifs=("a run fails and is cleared",),
        kinds=("merge_on_read", "merge_on_read", "copy_on_write", "drop_files", "compact"),
        chances={"correct": 0.6, "clear": 0.6},
        crashes=0.4,
    ),
    "paths again": Theme(
        motifs=("a path is live twice",),
        kinds=("add_twice", "add_twice", "add_again", "rewrite_manifests", "compact", *CHANGES),
        jobs=("log", "log", "complete", "filter", "merge"),
        settings={"initial": ("full", "full", "1", "2")},
    ),
    "rows that come back": Theme(
        motifs=("rows come back",),
        kinds=("merge_on_read", "merge_on_read", "undelete", "undelete", "copy_on_write", "compact", "upgrade"),
        jobs=("merge", "log", "log", "complete", "filter"),
        traits={"format_version": (2, 3, 3)},
    ),
    "failed runs": Theme(
        motifs=("a run fails and another follows", "a run is cleared", "a replay writes over a run"),
        kinds=(*CHANGES, "compact", "append_again", "upsert", "rollback"),
        jobs=("merge", "filter", "complete", "insert"),
        chances={"clear": 0.4, "late_commit": 0.3},
        crashes=0.5,
    ),
    "a log of appends": Theme(
        motifs=("a removal is rolled back", "a table is emptied"),
        kinds=("drop_place", "drop_files", "insert_overwrite", "compact", "rewrite_manifests", "undelete", "rollback"),
        jobs=("insert",),
        settings={"on_other_operation": ("skip", "skip_retention")},
    ),
}


def stories(seed: int, count: int, theme: str = "") -> Iterator[Story]:
    """Stories of a theme, or of all; always the same ones."""
    for number in range(count):
        yield _story(Random(f"{seed}/{number}"), theme)  # noqa: S311 - the same stories every time


def _story(random: Random, theme: str) -> Story:
    about = THEMES[theme or random.choice(sorted(THEMES))]
    tables = tuple(_traits(random, about) for _ in range(1 if random.random() < 0.9 else 2))
    job = random.choice(about.jobs)
    settings = _settings(random, about, job)
    consumer = {"merges_full": random.random() < 0.5, "skip_if_empty": random.random() < 0.85}
    scene = _Scene(random, about, job, _kinds(random, about), _chances(random, about), len(tables))
    actions = [scene.table_action(("append",)) for _ in range(random.randint(1, 3))]
    length = len(actions) + random.randint(2, MAX_ACTIONS)
    while len(actions) < length:
        chance = random.random()
        if chance < 0.2:
            actions += scene.motif()
        elif chance < 0.65:
            actions.append(scene.table_action())
        else:
            actions.append(scene.consumer_action())
    return Story(tuple(actions), job=job, settings=settings, tables=tables, consumer=consumer)


@dataclass(slots=True)
class _Scene:
    """What a story is drawn from."""

    random: Random
    theme: Theme
    job: str
    kinds: tuple[str, ...]
    chances: dict[str, float]
    tables: int

    def table_action(self, kinds: Sequence[str] = ()) -> Action:
        kind = self.random.choice(kinds or self.kinds)
        return TABLE_ACTIONS[kind](self.random, self.random.randrange(self.tables))

    def crash(self) -> str:
        return self.random.choice(CRASHES) if self.random.random() < self.theme.crashes else ""

    def consumer_action(self) -> Action:
        random = self.random
        name = random.choices(list(self.chances), list(self.chances.values()))[0]
        match name:
            case "run":
                crash = self.crash()
                return ("run", crash) if crash else ("run",)
            case "clear":
                return ("clear", random.choice((0, 0, 0, 1)), self.crash())
            case "full":
                return ("full", self.refresh(), self.crash())
            case "late_commit":
                return ("late_commit", random.randint(0, 2))
            case "reset":
                return ("reset",)
        return self.correction()

    def refresh(self) -> str:
        """What a full refresh does with the checkpoint. A job that inserts would insert the next range again."""
        return "moves" if self.job in (*FOLLOWS_APPENDS, "log") else self.random.choice(("moves", "beside"))

    def correction(self, *, of_job: bool = False) -> Action:
        """New settings; ``of_job``: perhaps with another job, and what belongs to it."""
        random, which = self.random, 1.0 if of_job else self.random.random()
        if which < 0.35:
            return ("correct", "", {"on_gap": _on_gap(random, self.job)})
        if which < 0.5:
            return ("correct", "", {random.choice(("max_snapshots", "max_files")): random.choice((None, 1, 2))})
        if random.random() < 0.25:
            self.job = random.choice(JOBS)
        elif random.random() < 0.8:
            self.job = random.choice(FOLLOWS_CHANGES if self.job in FOLLOWS_CHANGES else FOLLOWS_APPENDS)
        return ("correct", self.job, _settings_of_job(random, self.job))

    def motif(self) -> list[Action]:
        """Actions that have to come one after another before anything can go wrong."""
        random, table = self.random, self.random.randrange(self.tables)
        run: Action = ("run",)
        motifs: dict[str, Callable[[], list[Action]]] = {
            "a run fails and is cleared": lambda: [
                *self.perhaps(run),
                self.table_action(CHANGES),
                ("run", random.choice(CRASHES)),
                *self.perhaps(self.table_action()),
                *self.perhaps(self.correction(of_job=True), 0.8),
                ("clear", 0, ""),
            ],
            "a run fails and another follows": lambda: [
                ("run", random.choice(("half", "wrote"))),
                self.table_action(),
                *self.perhaps(self.table_action()),
                run,
            ],
            "a run is cleared": lambda: [
                self.table_action(CHANGES),
                run,
                *self.perhaps(self.table_action(), 0.3),
                ("clear", 0, random.choice(("", "half", "wrote"))),
                run,
            ],
            "a replay writes over a run": lambda: [
                run,
                self.table_action(CHANGES),
                ("run", "wrote"),
                ("clear", 1, ""),
                ("late_commit", random.randint(0, 2)),
            ],
            "a full refresh fails": lambda: [
                run,
                *self.perhaps(self.table_action(CHANGES)),
                ("full", self.refresh(), random.choice(("one table", "captured", "half", "wrote"))),
                *self.perhaps(self.table_action(CHANGES)),
                random.choice((run, ("clear", 0, ""))),
            ],
            "a refresh is overtaken": lambda: [
                run,
                self.table_action(("append",)),
                ("full", "moves" if self.job in (*FOLLOWS_APPENDS, "log") else "beside"),
                self.table_action(("rollback", *CHANGES)),
                run,
            ],
            "a refresh follows a rollback": lambda: [
                self.table_action(("drop_all", "drop_files", "drop_place")),
                run,
                ("rollback", table, 0),
                ("full", self.refresh()),
                self.table_action(("drop_all", "drop_files", "drop_place")),
                run,
            ],
            "history is lost after a change": lambda: [
                run,
                self.table_action(CHANGES),
                *self.perhaps(("empty_commit", table), 0.7),
                TABLE_ACTIONS[random.choice(("expire", "expire", "forget_metadata"))](random, table),
            ],
            "a path is live twice": lambda: [
                ("add_twice", table, random.randint(0, 5)),
                *self.perhaps(run),
                self.table_action((*CHANGES, "rewrite_manifests")),
                *self.perhaps(self.table_action((*CHANGES, "rewrite_manifests"))),
                run,
            ],
            "rows come back": lambda: [
                self.table_action(("merge_on_read",)),
                *self.perhaps(run, 0.8),
                self.table_action(("undelete",)),
                run,
            ],
            "a table is emptied": lambda: [
                *self.perhaps(self.table_action(("append",))),
                ("run", random.choice(("", "", "wrote"))),
                self.table_action(("drop_all", "drop_all", "recreate")),
                *self.perhaps(self.table_action()),
                random.choice((run, ("full", "moves"))),
            ],
            "a removal is rolled back": lambda: [
                self.table_action(("append",)),
                self.table_action(("drop_files", "drop_place", "drop_all")),
                run,
                self.table_action(("rollback",)),
                self.table_action(("append", "append", "drop_files", "empty_commit")),
                run,
            ],
            "the head goes back": lambda: [
                *self.perhaps(self.table_action(CHANGES)),
                run,
                self.table_action(("rollback", "rollback", "publish")),
                *self.perhaps(self.table_action(("append", *self.kinds))),
                *self.perhaps(self.table_action()),
                run,
            ],
        }
        return motifs[random.choice(self.theme.motifs or sorted(motifs))]()

    def perhaps(self, action: Action, chance: float = 0.5) -> list[Action]:
        return [action] if self.random.random() < chance else []


def _traits(random: Random, theme: Theme) -> dict[str, Any]:
    traits: dict[str, Any] = {}
    if random.random() < 0.3:
        traits["format_version"] = random.choice((1, 3, 3))
    if random.random() < 0.1:
        traits["shows_head_only"] = True
    if random.random() < 0.1:
        traits["bare_summaries"] = True
    if random.random() < 0.4:
        traits["keeps_old_metadata"] = False
    return {**traits, **{name: random.choice(values) for name, values in theme.traits.items()}}


def _settings(random: Random, theme: Theme, job: str) -> dict[str, Any]:
    settings = _settings_of_job(random, job)
    if random.random() < 0.25:
        settings["initial"] = random.choice(
            ("latest", "latest", str(random.randint(1, 4)), f"1970-01-01T00:00:0{random.randint(1, 6)}.500+00:00")
        )
    if random.random() < 0.4:
        settings["on_gap"] = _on_gap(random, job)
    if random.random() < 0.2:
        settings[random.choice(("max_snapshots", "max_files"))] = random.randint(1, 2)
    settings["equality_deletes"] = random.choice(("carry", "carry", "fail"))
    return {**settings, **{name: random.choice(values) for name, values in theme.settings.items()}}


def _settings_of_job(random: Random, job: str) -> dict[str, Any]:
    """What belongs to a job."""
    if job not in FOLLOWS_CHANGES:
        others = ("fail", "fail", "fail", "skip", "skip_retention")
        settings: dict[str, Any] = {"data_operations": ("append",), "on_other_operation": random.choice(others)}
        if job == "upsert" and random.random() < 0.3:
            settings["full_refresh_above"] = 0.5
        return settings
    choices = {"complete": ("complete",), "log": ("fail", "allow"), "merge": ("allow", "allow", "fail")}
    return {"data_operations": ALL_OPERATIONS, "on_superset": random.choice(choices.get(job, ("allow",)))}


def _on_gap(random: Random, job: str) -> str:
    return random.choice(("full", "full", "fail") if job in FOLLOWS_CHANGES else ("full", "resync", "resync", "fail"))


def _kinds(random: Random, theme: Theme) -> tuple[str, ...]:
    of_theme = sorted(set(theme.kinds))
    some = random.sample(of_theme, min(len(of_theme), random.randint(2, 5)))
    others = random.sample(sorted(TABLE_ACTIONS), random.choice((0, 0, 1, 2)) if some else random.randint(2, 7))
    linked = [other for kind in (*some, *others) for other in TOGETHER.get(kind, ())]
    return ("append", *(kind for kind in theme.kinds if kind in some), *others, *linked)


def _chances(random: Random, theme: Theme) -> dict[str, float]:
    people = theme.chances or {name: chance for name, chance in PEOPLE.items() if random.random() < 0.4}
    return {"run": 1.0, **people}
