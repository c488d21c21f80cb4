"""Faults to plant in a function: each changes its syntax tree at one place, which is found by what the code does there.

Formatting, comments and the words of errors may change and no fault is lost. A fault whose place is missing, or found
twice, is an error.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    Fault: TypeAlias = Callable[[ast.FunctionDef], None]


def plant(source: str, function: str, faults: Iterable[Fault]) -> str:
    """Return the source of a module with these faults in one of its functions, named as in ``__qualname__``."""
    tree = ast.parse(source)
    found: ast.AST = tree
    for name in function.split("."):
        found = _the_one(
            f"definition of {name}",
            [
                node
                for node in ast.iter_child_nodes(found)
                if isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name == name
            ],
        )
    assert isinstance(found, ast.FunctionDef)
    before = ast.dump(found)
    for fault in faults:
        fault(found)
    if ast.dump(found) == before:
        raise LookupError(f"{function} is as it was")
    return ast.unparse(ast.fix_missing_locations(tree))


def never(outcome: str) -> Fault:
    """The ``if`` that returns or raises ``outcome`` never holds."""

    def fault(function):
        _branch(function, outcome).test = ast.Constant(value=False)

    return fault


def always(outcome: str) -> Fault:
    """The ``if`` that returns or raises ``outcome`` always holds."""

    def fault(function):
        _branch(function, outcome).test = ast.Constant(value=True)

    return fault


def first_condition_only(outcome: str) -> Fault:
    """Of the conditions of the ``if`` that returns or raises ``outcome``, the first suffices."""

    def fault(function):
        branch = _branch(function, outcome)
        assert isinstance(branch.test, ast.BoolOp)
        branch.test = branch.test.values[0]

    return fault


def instead_of(outcome: str, code: str) -> Fault:
    """The ``if`` that returns or raises ``outcome`` does something else."""

    def fault(function):
        _branch(function, outcome).body = ast.parse(code).body

    return fault


def at_the_end(code: str) -> Fault:
    """The last statement is another one."""

    def fault(function):
        function.body[-1:] = ast.parse(code).body

    return fault


def only(code: str) -> Fault:
    """The function does nothing but this."""

    def fault(function):
        function.body = ast.parse(code).body

    return fault


def without_call(name: str) -> Fault:
    """A function is not called, where it is called for its effect."""

    def calls_it(statement):
        return isinstance(statement, ast.Expr) and _is_call(statement.value, name)

    def fault(function):
        _the_one(f"statement that calls {name}", [each for each in function.body if calls_it(each)])
        function.body = [each for each in function.body if not calls_it(each)]

    return fault


def unwrapped(name: str) -> Fault:
    """The first argument of a call stands in for what the call returns."""

    class Unwrapper(ast.NodeTransformer):
        def visit_Call(self, node):
            return node.args[0] if _is_call(node, name) else self.generic_visit(node)

    def fault(function):
        _call(function, name)
        Unwrapper().visit(function)

    return fault


def argument(call: str, position: int, value: str) -> Fault:
    """A call has another positional argument."""

    def fault(function):
        _call(function, call).args[position] = _expression(value)

    return fault


def keyword(call: str, name: str, value: str) -> Fault:
    """A call has another keyword argument, or one that it did not have."""

    def fault(function):
        found = _call(function, call, having=name) if _calls(function, call, having=name) else _call(function, call)
        kept = [each for each in found.keywords if each.arg != name]
        found.keywords = [*kept, ast.keyword(arg=name, value=_expression(value))]

    return fault


def without_keyword(call: str, name: str) -> Fault:
    """A call lacks a keyword argument."""

    def fault(function):
        found = _call(function, call, having=name)
        found.keywords = [each for each in found.keywords if each.arg != name]

    return fault


def assigned(name: str, value: str) -> Fault:
    """A name stands for another value."""

    def fault(function):
        def assigns(node):
            return isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == name

        _the_one(f"assignment to {name}", filter(assigns, ast.walk(function))).value = _expression(value)

    return fault


def _expression(text):
    return ast.parse(text, mode="eval").body


def _is_call(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == name


def _calls(function: ast.FunctionDef, name: str, having: str | None = None) -> list[ast.Call]:
    calls = [node for node in ast.walk(function) if isinstance(node, ast.Call) and _is_call(node, name)]
    return [call for call in calls if having is None or having in {each.arg for each in call.keywords}]


def _call(function: ast.FunctionDef, name: str, having: str | None = None) -> ast.Call:
    what = f"call of {name}" + (f" with {having}=" if having else "")
    found: ast.Call = _the_one(what, _calls(function, name, having))
    return found


def _branch(function, outcome):
    """The ``if`` with a statement of its own that returns or raises what is so called."""

    def names(node):
        return {getattr(each, "id", getattr(each, "attr", None)) for each in ast.walk(node)}

    def ends_so(branch):
        return any(isinstance(each, ast.Return | ast.Raise) and outcome in names(each) for each in branch.body)

    branches = (node for node in ast.walk(function) if isinstance(node, ast.If))
    return _the_one(f"if that ends in {outcome}", filter(ends_so, branches))


def _the_one(what: str, found: Iterable[Any]) -> Any:
    every = list(found)
    if len(every) != 1:
        raise LookupError(f"there are {len(every)} of what a fault looks for: {what}")
    return every[0]
