"""Runs trials one after another, whatever each of them meets, and always cleans up."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from dataclasses import replace

from dashboard.checks.live.assumptions import Result, of_trial, untried
from dashboard.checks.live.findings import after_error, unknown
from dashboard.checks.live.plan import operations_of, price_of
from dashboard.checks.live.report import Report
from dashboard.checks.live.scratch import new_prefix
from dashboard.checks.live.stage import Stage, now
from dashboard.checks.live.trials import TRIALS
from dashboard.fleet.pairs_file import PairConfig

OnResult = Callable[[Result], None]


def run_live(pair: PairConfig, trials: Sequence[str], on_result: OnResult, *, is_partial: bool = False) -> Report:
    """The report, after all scratch entities of the run are deleted. KeyboardInterrupt ends the trials early.

    `is_partial`: only these trials were asked for, so that assumptions which no trial shows are left out.
    """
    operations = operations_of(trials)
    results: list[Result] = []

    def note(result: Result) -> None:
        results.append(result)
        on_result(result)

    with Stage(pair, new_prefix(now(), uuid.uuid4().hex[:8])) as stage:
        report = Report(
            pair=pair.name,
            hosts={role: endpoint.address for role, endpoint in stage.endpoints.items()},
            is_emulator=stage.is_emulator,
            began_at=now(),
            ended_at=now(),
            operations=operations,
            cost=price_of(pair.name, operations, now()),
            results=results,
        )
        interrupted = False
        try:
            for trial in trials:
                try_one(stage, trial, note)
            for result in () if is_partial else untried():
                note(result)
        except KeyboardInterrupt:
            interrupted = True
        finally:
            left = stage.clean_up()
        return replace(report, ended_at=now(), results=tuple(results), left=tuple(left), interrupted=interrupted)


def try_one(stage: Stage, trial: str, note: OnResult) -> None:
    """Run one trial; what it raises is a result of the assumption that it was about, and the rest is not known."""
    pending = list(of_trial(trial))
    try:
        for found in TRIALS[trial](stage):
            pending.remove(found.id)
            note(found)
    except Exception as error:
        if not pending:
            return
        first, *rest = pending
        note(after_error(first, error))
        for other in rest:
            note(unknown(other, f"not tried, because the trial ended at {first}"))
