"""Who may see and who may change what, as Airflow's auth manager says."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow.api_fastapi.app import get_auth_manager
from airflow.api_fastapi.auth.managers.models.resource_details import DagAccessEntity, DagDetails
from airflow.models.dag import DagModel

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from airflow.api_fastapi.auth.managers.base_auth_manager import ResourceMethod
    from airflow.api_fastapi.auth.managers.models.base_user import BaseUser


def permitted(user: BaseUser, method: ResourceMethod, present: Collection[str]) -> Callable[[frozenset[str]], bool]:
    """Make a check of whether a user may do something to all of some DAGs.

    Airflow lists those of the present DAGs for which it is permitted by one query. A DAG that was deleted has no
    query: its rights are those of its name.
    """
    listed = get_auth_manager().get_authorized_dag_ids(user=user, method=method)
    known = {dag_id: dag_id in listed for dag_id in present} | dict.fromkeys(listed, True)

    def may(dag_id: str) -> bool:
        if dag_id not in known:
            details = DagDetails(id=dag_id)
            known[dag_id] = get_auth_manager().is_authorized_dag(method=method, details=details, user=user)
        return known[dag_id]

    return lambda dag_ids: all(map(may, dag_ids))


def may_trigger(user: BaseUser, dag_id: str) -> bool:
    """Whether the user may start runs of a DAG."""
    details = DagDetails(id=dag_id, team_name=DagModel.get_team_name(dag_id))
    return get_auth_manager().is_authorized_dag(
        method="POST", access_entity=DagAccessEntity.RUN, details=details, user=user
    )


def may_see_runs(user: BaseUser, dag_id: str) -> bool:
    """Whether the user may see the runs of another DAG: DAGs with different readers may share a consumer."""
    details = DagDetails(id=dag_id, team_name=DagModel.get_team_name(dag_id))
    return get_auth_manager().is_authorized_dag(
        method="GET", access_entity=DagAccessEntity.RUN, details=details, user=user
    )
