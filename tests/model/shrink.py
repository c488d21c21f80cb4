"""Shorten a story that breaks the law, as long as it breaks it."""

from __future__ import annotations

from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING, Any

from tests.model.story import OF_CONSUMERS, failure_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from tests.model.story import Story

NEEDED = ("data_operations", "on_superset", "on_other_operation")
"""Settings that belong to the job."""


def shrunk(story: Story, avoiding: Collection[str] = ()) -> tuple[Story, Exception]:
    """The shortest story that is found by leaving things out one by one, and what it breaks."""
    why = failure_of(story, avoiding)
    assert why is not None
    while True:
        for shorter in chain(_without_actions(story), _without_facts(story), _with_simpler_arguments(story)):
            failure = failure_of(shorter, avoiding)
            if failure is not None and type(failure) is type(why):
                story, why = shorter, failure
                break
        else:
            return story, why


def _without_actions(story: Story) -> Iterator[Story]:
    for size in (8, 4, 2, 1):
        for at in range(len(story.actions) - size, -1, -1):
            yield replace(story, actions=story.actions[:at] + story.actions[at + size :])


def _without_facts(story: Story) -> Iterator[Story]:
    for settings in _smaller(story.settings, kept=NEEDED):
        yield replace(story, settings=settings)
    for consumer in _smaller(story.consumer):
        yield replace(story, consumer=consumer)
    for number, traits in enumerate(story.tables):
        for fewer in _smaller(traits):
            yield replace(story, tables=(*story.tables[:number], fewer, *story.tables[number + 1 :]))
    if all(action[0] in OF_CONSUMERS or action[1] == 0 for action in story.actions):
        for tables in range(1, len(story.tables)):
            yield replace(story, tables=story.tables[:tables])


def _smaller(facts: dict[str, Any], kept: Collection[str] = ()) -> Iterator[dict[str, Any]]:
    for left_out in facts:
        if left_out not in kept:
            yield {name: value for name, value in facts.items() if name != left_out}


def _with_simpler_arguments(story: Story) -> Iterator[Story]:
    for at, action in enumerate(story.actions):
        for position in range(1 if action[0] in OF_CONSUMERS else 2, len(action)):
            for simpler in _simpler(action[position]):
                changed = (*action[:position], simpler, *action[position + 1 :])
                yield replace(story, actions=(*story.actions[:at], changed, *story.actions[at + 1 :]))


def _simpler(argument: object) -> range:
    return range(argument) if isinstance(argument, int) else range(0)
