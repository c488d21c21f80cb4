"""An action on its way from a form to what it does: shown, previewed, confirmed, done."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

from airflow_provider_ips import config
from airflow_provider_ips.core.errors import InputError, IpsError
from airflow_provider_ips.maintenance.task import DAG_ID
from airflow_provider_ips.ui import urls
from airflow_provider_ips.ui.actions import WATCH_DAG, Action, note, run_here, start_run, token_for
from airflow_provider_ips.ui.deployment import read_tables
from airflow_provider_ips.ui.rendering import render
from airflow_provider_ips.ui.rights import may_trigger
from airflow_provider_ips.ui.tables import list_tables_of, snapshots_of

if TYPE_CHECKING:
    from airflow.api_fastapi.auth.managers.models.base_user import BaseUser
    from fastapi.responses import HTMLResponse
    from sqlalchemy.orm import Session

    from airflow_provider_ips.core.sightings.table_sighting import Commit
    from airflow_provider_ips.ui.consumers import Consumer
    from airflow_provider_ips.ui.deployment import Deployment

_TARGETS: Final = {"look": WATCH_DAG}


@dataclass(frozen=True, slots=True, kw_only=True)
class Desk:
    """One action for one user, on one consumer or on all."""

    session: Session
    user: BaseUser
    deployment: Deployment
    action: Action
    consumer: Consumer | None = None

    @property
    def word(self) -> str:
        """What has to be typed: the consumer's name, or the ICDC namespace."""
        return self.consumer.name if self.consumer is not None else config.ICDC_NAMESPACE.read()

    @property
    def runs_dag(self) -> str:
        """The DAG that does what the API server cannot do."""
        if self.action.name == "dry-run" and self.consumer is not None:
            return self.consumer.dag_id
        return _TARGETS.get(self.action.name, DAG_ID)

    @property
    def snapshots(self) -> list[tuple[str, Commit]]:
        """The seen commits of its sources, to choose one from."""
        if self.consumer is None:
            return []
        return list(snapshots_of(list_tables_of([self.consumer], read_tables(self.session))))

    def show(self) -> HTMLResponse:
        """Show what it will do, and its form."""
        return self._page({})

    def answer(self, form: Mapping[str, str]) -> HTMLResponse:
        """Preview it, or do it. What is refused changes nothing, and the page says why."""
        try:
            is_preview = self.action.has_preview and form.get("step") != "perform"
            return self._answered(form, is_preview=is_preview)
        except IpsError as error:
            return self._page(form, error=error, status=HTTPStatus.UNPROCESSABLE_ENTITY)

    def _answered(self, form: Mapping[str, str], *, is_preview: bool) -> HTMLResponse:
        if not is_preview:
            self._check_confirmation(form)
        if self._must_run_as_dag(form):
            return self._started(form, is_preview=is_preview)
        consumer = self.consumer
        if consumer is None or consumer.checkpoint is None:
            raise InputError("no checkpoint", consequence="Nothing was done", remedy="go back to the overview")
        if not is_preview and form.get("revision") != str(consumer.checkpoint.revision):
            raise InputError(
                "the checkpoint has changed since the preview",
                consequence="What you saw is not what would be done, so nothing was written",
                remedy="look at the preview again",
            )
        console = run_here(self.action, form, consumer=consumer.name, user=self.user.get_name(), is_dry=is_preview)
        if not is_preview:
            self._note(form)
        return self._page(form, console=console, is_previewed=is_preview, is_done=not is_preview)

    def _started(self, form: Mapping[str, str], *, is_preview: bool) -> HTMLResponse:
        if problem := self.why_no_run():
            raise InputError(problem, consequence="Nothing was done", remedy=self._remedy)
        context: dict[str, Any] = {"dry_run": is_preview, "confirm": "" if is_preview else self._word_of(form)}
        if self.consumer is not None:
            connection = self.consumer.task.settings.get("iceberg_conn_id") if self.consumer.task else None
            context |= {
                "consumer": self.consumer.name,
                "store": "iceberg" if self.consumer.checkpoint is None else "variable",
                **({"conn_id": connection} if isinstance(connection, str) and "{{" not in connection else {}),
            }
        run_id = start_run(self.action, form, dag_id=self.runs_dag, context=context, user=self.user.get_name())
        self._note({**form, "run_id": run_id, "dry_run": str(is_preview)})
        started = urls.run_page(self.runs_dag, run_id)
        return self._page(form, started=started, is_previewed=is_preview, is_done=not is_preview)

    def _must_run_as_dag(self, form: Mapping[str, str]) -> bool:
        is_in_variable = self.consumer is not None and self.consumer.checkpoint is not None
        return self.action.must_run_as_dag(form, is_in_variable=is_in_variable)

    def why_no_run(self) -> str:
        """Say why no run of the DAG can be started; empty if one can."""
        if self.runs_dag not in self.deployment.paused:
            return f"this Airflow has no DAG {self.runs_dag!r}"
        if self.deployment.paused[self.runs_dag]:
            return f"DAG {self.runs_dag!r} is paused, so that a run of it would not start"
        if not may_trigger(self.user, self.runs_dag):
            return f"you may not start runs of DAG {self.runs_dag!r}"
        return ""

    @property
    def _remedy(self) -> str:
        if self.runs_dag not in self.deployment.paused:
            return "copy it from the examples of airflow-provider-ips, or use `airflow ips` on a server"
        return "unpause it, if that is intended: its schedule starts then, if it has one; or use `airflow ips`"

    def _check_confirmation(self, form: Mapping[str, str]) -> None:
        word = self._word_of(form)
        if self.action.is_confirmed and form.get("confirm", "").strip() != word:
            raise InputError("not confirmed", consequence="Nothing was done", remedy=f"type {word} to confirm")

    def _word_of(self, form: Mapping[str, str]) -> str:
        return form.get("namespace") or self.word if self.consumer is None else self.word

    def _note(self, extra: Mapping[str, str]) -> None:
        hidden = ("token", "confirm")
        dag_id = self.runs_dag if self.consumer is None else self.consumer.dag_id
        said = {name: value for name, value in extra.items() if name not in hidden and value}
        note(self.session, self.action, user=self.user, dag_id=dag_id, extra=said)

    def _page(self, form: Mapping[str, str], *, status: HTTPStatus = HTTPStatus.OK, **results: Any) -> HTMLResponse:
        shown = {"console": None, "error": None, "started": "", "is_previewed": False, "is_done": False, **results}
        checkpoint = self.consumer.checkpoint if self.consumer else None
        return render(
            "action.html",
            status=status,
            desk=self,
            form=form,
            token=token_for(self.user),
            word=self._word_of(form),
            revision=checkpoint.revision if checkpoint else "",
            may_run_as_dag=self._must_run_as_dag(form),
            **shown,
        )
