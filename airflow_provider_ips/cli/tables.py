"""The commands that read or write tables, or change checkpoints."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, cast

from airflow.utils.cli import action_cli

from airflow_provider_ips import compat
from airflow_provider_ips.cli.terminal import cli_function
from airflow_provider_ips.maintenance import clean_up, doctor, estimate, manual_changes, replay
from airflow_provider_ips.maintenance.server import Server

if TYPE_CHECKING:
    from collections.abc import Callable

    from airflow_provider_ips.cli.terminal import CliFunction
    from airflow_provider_ips.maintenance.console import Console

# Airflow's audit log gets every command that writes, with its arguments. Airflow's own check of the database would end
# in a traceback where there is none.
_audited = cast("Callable[[CliFunction], CliFunction]", partial(action_cli, check_db=False))


def _doctor(console: Console, options: doctor.DoctorOptions) -> None:
    if doctor.doctor(console, options, server=Server()):
        raise SystemExit(1)


doctor_command = cli_function("doctor", _doctor, doctor.DoctorOptions)
estimate_command = cli_function("estimate", estimate.estimate, estimate.EstimateOptions)
seed_command = _audited(cli_function("seed", manual_changes.seed, manual_changes.SeedOptions))
rewind_command = _audited(cli_function("rewind", manual_changes.rewind, manual_changes.RewindOptions))
reset_command = _audited(cli_function("reset", manual_changes.reset, manual_changes.ResetOptions))
abandon_command = _audited(cli_function("abandon", manual_changes.abandon, manual_changes.AbandonOptions))
move_command = _audited(cli_function("move", manual_changes.move, manual_changes.MoveOptions))
replay_command = _audited(cli_function("replay", replay.replay, replay.ReplayOptions))


def _gc(console: Console, options: clean_up.CleanUpOptions) -> None:
    compat.start_stats()  # what is deleted is counted, and a command is not a task
    clean_up.gc(console, options)


gc_command = _audited(cli_function("gc", _gc, clean_up.CleanUpOptions))
