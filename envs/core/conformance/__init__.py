"""The checks behind `check_text_env`: one function per clause of the contract; its name is what a failure reports."""

from __future__ import annotations

from collections.abc import Callable

from . import api, determinism, hygiene, policies, state, steps, tasks, vectors
from .subject import Skip, Subject

__all__ = ["CHECKS", "Skip", "Subject"]

CHECKS: tuple[Callable[[Subject], None], ...] = (
    *(api.docstring_headings, api.gymnasium_checker, api.spec_round_trip),
    *(tasks.splits_are_disjoint, tasks.task_ids_start_the_same_task, tasks.group_starts_are_identical),
    *(determinism.deterministic, determinism.deterministic_across_processes),
    *(policies.oracle_solves, policies.doing_nothing_fails, policies.random_actions_fail, policies.echoing_fails),
    *(steps.info_is_step_info, steps.invalid_actions_change_nothing, steps.admissible_actions_are_valid),
    *(steps.late_actions_are_refused, steps.step_limit_truncates),
    *(state.snapshots_restore, state.equal_keys_mean_equal_states, state.privileged_calls_leave_no_trace),
    *(api.everything_pickles, api.render_returns_text, vectors.vector_sync, vectors.vector_async),
    hygiene.close_leaves_nothing_behind,
)
