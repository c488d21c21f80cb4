"""The secrets of an installation: its own, complete, and never replaced."""

import stat
import subprocess

import pytest
from cryptography.fernet import Fernet

from tests.docs.docker.stack import DOCKER, generated_env

SETTINGS = {"AIRFLOW_PORT", "SPARK_UI_PORT"}


def test_the_second_run_changes_nothing(tmp_path):
    first = generated_env(tmp_path)
    text = (tmp_path / ".env").read_text()

    assert generated_env(tmp_path) == first
    assert (tmp_path / ".env").read_text() == text


def test_an_update_adds_what_is_new_and_keeps_what_was_changed_by_hand(tmp_path):
    before = generated_env(tmp_path)
    kept = {name: value for name, value in before.items() if name != "REDIS_PASSWORD"} | {"AIRFLOW_PORT": "9090"}
    # As an editor may leave it: no end of the last line.
    (tmp_path / ".env").write_text("\n".join(f"{name}={value}" for name, value in kept.items()))

    after = generated_env(tmp_path)

    assert after.keys() == before.keys()
    assert {name: after[name] for name in kept} == kept
    assert after["REDIS_PASSWORD"] != before["REDIS_PASSWORD"]


def test_every_secret_is_long_and_like_no_other_anywhere(tmp_path):
    secrets = []
    for name in ("here", "there"):
        (tmp_path / name).mkdir()
        env = generated_env(tmp_path / name)
        secrets += [value for key, value in env.items() if key not in SETTINGS]

    assert len(set(secrets)) == len(secrets)
    assert all(len(secret) >= 20 for secret in secrets)


def test_secrets_are_of_the_kind_that_their_readers_take(tmp_path):
    env = generated_env(tmp_path)

    Fernet(env["AIRFLOW_FERNET_KEY"])
    assert len(env["AIRFLOW_JWT_SECRET"]) >= 64, "HS512 signs with keys of 64 bytes or more"


def test_only_the_owner_can_read_them(tmp_path):
    generated_env(tmp_path)

    assert stat.S_IMODE((tmp_path / ".env").stat().st_mode) == 0o600


def test_a_machine_without_random_numbers_is_told_so(tmp_path):
    generated_env(tmp_path)
    (tmp_path / ".env").unlink()
    tools = tmp_path / "bin"
    tools.mkdir()
    for name, body in {"head": "exit 1", "od": "exit 1", "base64": "exit 1"}.items():
        (tools / name).write_text(f"#!/bin/sh\n{body}\n")
        (tools / name).chmod(0o755)

    done = subprocess.run(
        [str(tmp_path / "init-env")],
        env={"PATH": f"{tools}:/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )

    assert done.returncode == 1
    assert "no value for AIRFLOW_ADMIN_PASSWORD" in done.stderr


@pytest.mark.parametrize("listed", [".env"])
def test_git_does_not_see_them(listed):
    ignored = (DOCKER / ".gitignore").read_text().splitlines()

    assert listed in ignored
