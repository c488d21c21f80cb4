"""The mutants of `make test-mutants` find what they break; without one, the model finds nothing to complain of."""

import importlib
import inspect
import textwrap

import pytest

from tests.core.faults import never, plant, without_keyword
from tests.core.mutants import MUTANTS


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.story)
def test_every_mutant_finds_what_it_breaks(mutant):
    source = inspect.getsource(importlib.import_module(mutant.module))

    compile(plant(source, mutant.function, mutant.faults), mutant.module, "exec")


def test_a_fault_whose_place_is_not_there_once_is_an_error():
    source = textwrap.dedent(
        """
        def cook(meal):
            if not meal:
                raise Hungry("nothing there")
            return serve(meal, hot=True), serve(meal, hot=False)
        """
    )

    for fault in (never("Thirsty"), without_keyword("serve", "hot"), without_keyword("serve", "cold")):
        with pytest.raises(LookupError, match=r"there are \d of what a fault looks for"):
            plant(source, "cook", [fault])
    with pytest.raises(LookupError, match="definition of bake"):
        plant(source, "bake", [never("Hungry")])
    assert "if False:" in plant(source, "cook", [never("Hungry")])
