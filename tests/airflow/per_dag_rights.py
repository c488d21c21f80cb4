"""An auth manager whose users may be restricted to some DAGs, and an API server that uses it."""

from contextlib import contextmanager

import pytest
from airflow.api_fastapi.auth.managers.simple.simple_auth_manager import SimpleAuthManager

IMPLEMENTATION = f"{__name__}.PerDagAuthManager"
ONLY = "only:"
READS = "reads:"


class PerDagAuthManager(SimpleAuthManager):
    """``only:a,b`` has no rights on other DAGs than those, and ``reads:a`` may only read others."""

    def is_authorized_dag(self, *, method, user, access_entity=None, details=None):
        restriction, _, names = user.username.partition(":")
        is_other = details is not None and details.id is not None and details.id not in names.split(",")
        if is_other and f"{restriction}:" == ONLY:
            return False
        if is_other and f"{restriction}:" == READS and method != "GET":
            return False
        return super().is_authorized_dag(method=method, user=user, access_entity=access_entity, details=details)


@pytest.fixture(scope="module")
def airflow_app(airflow_database):
    """The API server with all its plugins."""
    from airflow.api_fastapi.app import create_app

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AIRFLOW__CORE__AUTH_MANAGER", IMPLEMENTATION)
        yield create_app(apps="core")


@pytest.fixture(scope="module")
def client(airflow_app):
    """Ask as a user: ``client(path)``, ``client(path, user="only:a")``, ``client(path, data={…})`` posts a form."""
    from airflow.api_fastapi.app import get_auth_manager
    from airflow.api_fastapi.auth.managers.simple.user import SimpleAuthManagerUser
    from fastapi.testclient import TestClient

    browser = TestClient(airflow_app, follow_redirects=False, base_url="http://testserver")

    def ask(path, *, user="admin", role="ADMIN", data=None, headers=None):
        browser.cookies.clear()
        if role != "nobody":
            somebody = SimpleAuthManagerUser(username=user, role=role)
            browser.cookies.set("_token", get_auth_manager().generate_jwt(somebody))
        if data is None:
            return browser.get(path, headers=headers or {})
        return browser.post(path, data=data, headers={"Sec-Fetch-Site": "same-origin"} if headers is None else headers)

    return ask


@contextmanager
def counted_queries():
    """Count what Airflow's database is asked."""
    from airflow import settings
    from sqlalchemy import event

    seen = []

    def note(connection, cursor, statement, parameters, context, executemany):
        seen.append(statement)

    event.listen(settings.engine, "before_cursor_execute", note)
    try:
        yield seen
    finally:
        event.remove(settings.engine, "before_cursor_execute", note)
