"""A job that outlives its task belongs to one capture.

Airflow keeps the id of such a job with the task (``ResumableJobMixin``; ``SparkSubmitOperator`` in cluster mode), also
when the run is cleared, and a job that has succeeded is not submitted again. A run that captures a *new* range would
have its rows committed on the word of a job that never saw them.
"""

from __future__ import annotations

import inspect
import logging
from typing import TYPE_CHECKING, Any, Final

from airflow_provider_ips.operators import _wiring

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from airflow.sdk import Context

log = logging.getLogger(__name__)

KEY: Final = "ips_capture_ids"
"""Under which a resumable task remembers, beside its job, what the job was given."""

_OURS_IS_IN: Final = "_ips_forgets"


def forget_job_of_other_capture(context: Context) -> None:
    """Let a resumable task submit its job anew if it was given another capture; a ``pre_execute`` hook."""
    ti, store = context["ti"], context["task_state_store"]
    found = (
        str(capture_id)
        for task in context["task"].get_flat_relatives(upstream=True)
        if _wiring.is_capture(task)
        for capture_id in ti.xcom_pull(task_ids=[task.task_id], key="capture_id") or ()
        if capture_id is not None
    )
    captured = " ".join(sorted(found))
    known = store.get(KEY)
    if known == captured:
        return
    if known is not None:
        log.info("The job this task remembers was given capture %s; this run has %s: submitting anew.", known, captured)
    store.clear()
    store.set(KEY, captured)


def forgetting(theirs: Callable[[Context], Any] | None) -> Callable[[Context], Any]:
    """Put :func:`forget_job_of_other_capture` before a task's own ``pre_execute`` hook, once."""
    if theirs is None:
        return forget_job_of_other_capture
    if theirs is forget_job_of_other_capture or getattr(theirs, _OURS_IS_IN, False):
        return theirs

    def both(context: Context) -> None:
        forget_job_of_other_capture(context)
        theirs(context)

    def both_yielding(context: Context) -> Iterator[Any]:
        forget_job_of_other_capture(context)
        yield from theirs(context)

    # Airflow looks at the function to tell whether it yields asset metadata.
    hook = both_yielding if inspect.isgeneratorfunction(theirs) else both
    setattr(hook, _OURS_IS_IN, True)
    return hook
