"""What a branch may answer, as far as the DAG file tells: one of its ways, or several at once."""

from __future__ import annotations

import ast
import inspect
from textwrap import dedent
from typing import TYPE_CHECKING, Final

from airflow_provider_ips.operators import _wiring

if TYPE_CHECKING:
    from airflow.sdk.types import Operator

_GIVEN: Final = ("follow_task_ids_if_true", "follow_task_ids_if_false")
"""Where branches by weekday, by time and by SQL are told their two answers."""


def may_choose_several(branch: Operator) -> bool:
    """Tell a branch that may answer with a list. One whose answers cannot be read may: refusing it would be a guess."""
    given = [_wiring.argument(branch, name) for name in _GIVEN]
    if any(given):
        return not all(isinstance(answer, str) for answer in given)
    if _wiring.argument(branch, "multiple") is False:  # one that asks people
        return False
    chooses = _wiring.argument(branch, "python_callable")
    return not _answers_with_one(
        chooses or getattr(getattr(branch, "operator_class", type(branch)), "choose_branch", None)
    )


def _answers_with_one(function: object) -> bool:
    """Tell a function that returns nothing but single names, by its source."""
    try:
        tree = ast.parse(dedent(inspect.getsource(function)))  # type: ignore[arg-type]  # says TypeError
    except (OSError, TypeError, SyntaxError):
        return False
    name = getattr(function, "__name__", None)
    if name == "<lambda>":
        lambdas = [node for node in ast.walk(tree) if isinstance(node, ast.Lambda)]
        return len(lambdas) == 1 and _is_one(lambdas[0].body)
    return next((_returns_one(node) for node in tree.body if isinstance(node, ast.FunctionDef)), False)


def _returns_one(function: ast.FunctionDef) -> bool:
    if isinstance(function.returns, ast.Name) and function.returns.id == "str":
        return True
    inside = list(ast.walk(function))
    if any(isinstance(node, ast.Yield | ast.YieldFrom) for node in inside):
        return False
    return all(_is_one(node.value) for node in inside if isinstance(node, ast.Return))


def _is_one(answer: ast.expr | None) -> bool:
    """Nothing, a literal name, the ``task_id`` of a task, or either of such."""
    if isinstance(answer, ast.IfExp):
        return _is_one(answer.body) and _is_one(answer.orelse)
    if isinstance(answer, ast.Attribute):
        return answer.attr in {"task_id", "group_id"}
    return answer is None or isinstance(answer, ast.Constant | ast.JoinedStr)
