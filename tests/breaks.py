"""Breaks of the project, each with a test that fails because of it: python tests/breaks.py [WORD]

In a copy of the project the tests pass. Then it gets one break after the other, and each has to
fail its test. It takes minutes. A word chooses the breaks whose file or test contains it.
"""

import importlib
import os
import shutil
import sys
import tempfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
LIBRARIES = ("lightning.pytorch", "pandas", "peft")  # most of what a test imports
FAILED = 1  # pytest's exit status; that of a test which does not run is another
BREAKS = (  # file, old text, new text, test
    (
        "magrpo.py",
        "return [shared + parts",
        "return [shared - parts",
        "test_equations.py::test_what_a_joint_response_pays_each_agent",
    ),
    (
        "magrpo.py",
        "shifts = [agent * k for",
        "shifts = [min(agent, 1) * k for",
        "test_equations.py::test_samples_that_met_meet_others_first",
    ),
    (
        "magrpo.py",
        "mean = earned.mean()",
        "mean = earned.sum()",
        "test_equations.py::test_optimism_overrates_a_response_that_needs_luck",
    ),
    (
        "magrpo.py",
        "weight = 0.0 if node.children else optimism",
        "weight = optimism",
        "test_equations.py::test_a_response_that_delays_what_an_episode_pays_gains_nothing",
    ),
    (
        "magrpo.py",
        "node.rewards.mean(1) + gamma * future.mean(1)",
        "node.rewards.mean(1) + future.mean(1)",
        "test_learners.py::test_the_unit_of_returns_does_not_depend_on_the_batch",
    ),
    (
        "magrpo.py",
        "return -(coef *",
        "return (coef *",
        "test_equations.py::test_the_baseline_max_works_against_the_best",
    ),
    (
        "magrpo.py",
        "0.5 * (logps - reference).square()",
        "(logps - reference).square()",
        "test_equations.py::test_kl_gradient_is_that_of_each_token_given_those_before_it",
    ),
    (
        "magrpo.py",
        "generator(seed, ORDER, epoch)",
        "generator(seed, epoch)",
        "test_equations.py::test_problem_order_is_a_function_of_the_step",
    ),
    (
        "magrpo.py",
        "key[3] + number)",
        "key[3])",
        "test_magrpo.py::test_every_sample_has_its_own_random_numbers",
    ),
    (
        "magrpo.py",
        "if is_scored.setdefault(",
        "if False and is_scored.setdefault(",
        "test_magrpo.py::test_a_reward_scores_all_responses_to_a_problem_at_a_turn_or_none",
    ),
    (
        "magrpo.py",
        "text = node.responses[agent][sample].text",
        "text = node.responses[0][sample].text",
        "test_learners.py::test_a_turn_is_opened_where_the_episode_goes_on_in_the_world_that_the_"
        "agents_made",
    ),
    (
        "magrpo.py",
        "share = 1.0 / (len(self.turns[0]) * responses)",
        "share = 1.0 / (len(nodes) * responses)",
        "test_equations.py::test_an_episode_that_ends_early_estimates_the_true_gradient",
    ),
    (
        "magrpo.py",
        "clip_grad_norm_(group, limit)) for group in groups",
        "clip_grad_norm_(sum(groups, []), limit)) for _ in groups",
        "test_magrpo.py::test_an_update_is_the_written_one",
    ),
    (
        "magrpo.py",
        "if agent in options.freeze or not",
        "if not",
        "test_learners.py::test_a_frozen_agent_acts_and_costs_no_update",
    ),
    (
        "policies/sampling.py",
        "logits = logits / sampling.temperature",
        "logits = logits * sampling.temperature",
        "test_policies.py::test_warp_against_literals",
    ),
    (
        "policies/sampling.py",
        "likelier = mass.cumsum(-1) - mass",
        "likelier = mass.cumsum(-1)",
        "test_policies.py::test_top_p_without_a_sort_keeps_what_the_sort_keeps",
    ),
    (
        "policies/decoding.py",
        'inputs["attention_mask"] = real.long()',
        'inputs["attention_mask"] = torch.ones_like(real).long()',
        "test_maskless.py::test_what_is_sampled_is_what_is_scored[llama-4-changes0]",
    ),
    (
        "policies/logprobs.py",
        "self.depths.append(depth)",
        "self.depths.append(len(self.depths))",
        "test_policies.py::test_what_rows_begin_with_is_run_once",
    ),
    (
        "policies/logprobs.py",
        "seen[place] |= seen[parent]",
        "seen[place, :place] = True",
        "test_policies.py::test_scores_every_token_as_a_loop_does",
    ),
    (
        "policies/logprobs.py",
        "return ratio.clamp(max=CAP)",
        "return ratio",
        "test_engine.py::test_the_ratio_of_an_agent_s_tokens_scales_its_gradient",
    ),
    (
        "policies/codec.py",
        "split_special_tokens=True",
        "split_special_tokens=False",
        "test_policies.py::test_a_text_is_its_tokens_and_they_are_the_text",
    ),
    (
        "policies/codec.py",
        "if len(ids) + room > self.context",
        "if len(ids) > self.context",
        "test_policies.py::test_prompts_are_never_cut",
    ),
    (
        "policies/judging.py",
        "frozen=True",
        "frozen=False",
        "test_judging.py::test_answers_are_the_frozen_bases_log_probabilities",
    ),
    (
        "policies/memory.py",
        "in (group, *group.parents)",
        "in (group,)",
        "test_memory.py::test_the_limits_of_every_group_of_this_process_count",
    ),
    (
        "policies/fast/attention.py",
        "mask.masked_fill_(~rows, -math.inf)",
        "mask.masked_fill_(~rows, 0.0)",
        "fast/test_fast.py::test_it_computes_what_the_plain_way_computes[llama-4-1]",
    ),
    (
        "policies/fast/attention.py",
        "if not real.all():",
        "if real.all():",
        "fast/test_fast.py::test_it_computes_what_the_plain_way_computes[llama-4-1]",
    ),
    (
        "policies/fast/attention.py",
        "self.row_values = self.row_values[rows]",
        "self.row_values = self.row_values[: len(rows)]",
        "fast/test_fast.py::test_it_computes_what_the_plain_way_computes[llama-4-1]",
    ),
    (
        "policies/fast/layers.py",
        "torch.cat([-first, second], -1)",
        "torch.cat([first, second], -1)",
        "fast/test_fast.py::test_it_computes_what_the_plain_way_computes[llama-4-1]",
    ),
    (
        "policies/fast/layers.py",
        'and not getattr(config, "sliding_window", None)',
        "",
        "fast/test_fast.py::test_models_of_other_kinds_stay_plain",
    ),
    (
        "policies/fast/adapters.py",
        "places += range(start, start + size)",
        "places += range(number, number + size)",
        "fast/test_fast.py::test_it_computes_what_the_plain_way_computes[llama-4-1]",
    ),
    (
        "programs/extraction.py",
        "and not statement.binds & foreign",
        "",
        "test_extraction.py::test_a_partner_s_function_is_out_of_reach",
    ),
    (
        "programs/extraction.py",
        'if name.startswith("_") or name not in _ATTRIBUTES',
        'if name.startswith("_")',
        "test_extraction.py::test_what_outlasts_no_module_is_shareable",
    ),
    (
        "programs/teams.py",
        "if helper in team[name].reads and",
        "if helper in team[main].reads and",
        "test_rewards.py::test_helpers_share_the_cooperation",
    ),
    (
        "programs/teams.py",
        "return (p - q) / (1 - q)",
        "return (p - q)",
        "test_rewards.py::test_the_slope_against_stand_ins_run_by_hand",
    ),
    (
        "programs/schemes.py",
        "_spread(helpers - local,",
        "_spread(helpers,",
        "test_schemes.py::test_a_name_that_hides_the_helper_is_not_the_helper",
    ),
    (
        "programs/feedback.py",
        'error_type = error.partition(":")[0]',
        "error_type = error",
        "test_feedback.py::test_a_partners_words_never_come_through",
    ),
    (
        "programs/items.py",
        "if names & under_test:",
        "if names:",
        "test_code_tasks.py::test_statements_that_assert_become_tests",
    ),
    (
        "programs/texts.py",
        "known |= counts.keys()",
        "pass",
        "test_writing.py::test_the_parts_by_hand",
    ),
    (
        "programs/sandbox/runner.py",
        "random.seed(hash(test))",
        "random.seed(0)",
        "test_sandbox.py::test_what_a_test_draws_cannot_be_foreseen_and_comes_again",
    ),
    (
        "programs/sandbox/runner.py",
        "(now - self.began[1]) / WALL",
        "(now - self.began[1])",
        "test_sandbox.py::test_limits_are_of_cpu_time",
    ),
    (
        "rewards.py",
        "if p == 1 else TESTS - p)",
        "if p == 1 else TESTS)",
        "test_rewards.py::test_the_slope_against_stand_ins_run_by_hand",
    ),
    (
        "rewards.py",
        "(gain.mean() + least) / 2",
        "gain.mean()",
        "test_writing.py::test_the_least_window_of_a_text_counts_for_half",
    ),
    (
        "rewards.py",
        "return 1.0 - ramp(ratio, last, high)",
        "return 1.0",
        "test_writing.py::test_bands",
    ),
    (
        "rewards.py",
        "return team + agent_sum / agents",
        "return team + agent_sum",
        "test_learners.py::test_pay_that_was_not_promised_is_refused",
    ),
    (
        "tasks.py",
        "if agent == self.num_agents - 1 > 0:",
        "if agent > 0:",
        "test_code_tasks.py::test_an_answer_begins_with_the_agents_own_def_line",
    ),
    (
        "training/metrics.py",
        "estimates[row.agent].append(ratio.exp() - 1 - ratio)",
        "estimates[row.agent].append(ratio.exp() - 1)",
        "test_magrpo.py::test_metrics_do_not_depend_on_padding",
    ),
    (
        "training/metrics.py",
        " and agent not in module.algorithm.freeze",
        "",
        "test_learners.py::test_a_group_teaches_where_a_response_of_one_who_learns_has_an_advantage",
    ),
    (
        "training/held_out.py",
        "deviation / math.sqrt(len(items))",
        "deviation / len(items)",
        "test_learners.py::test_an_episode_that_ends_unscored_counts_as_0_in_every_held_out_measure",
    ),
    (
        "training/reward_runner.py",
        "keys = [(id(item), *texts)",
        "keys = [(*texts,)",
        "test_learners.py::test_equal_joint_responses_to_a_problem_are_scored_once",
    ),
    (
        "training/reward_runner.py",
        "elif not all(map(math.isfinite, parts.values())):",
        "elif False:",
        "test_plugins.py::test_what_a_reward_returns_is_checked",
    ),
    (
        "training/run_folder.py",
        'path.read_text("utf-8-sig", "replace").split("\\n")',
        'path.read_text("utf-8-sig", "replace").splitlines()',
        "test_faults.py::test_a_text_s_own_line_ends_split_no_line",
    ),
    (
        "training/recorder.py",
        "if self.flat == FLAT:",
        "if self.flat >= FLAT:",
        "test_train.py::test_a_step_is_a_line_and_ten_that_teach_nothing_are_a_warning",
    ),
    (
        "training/defaults.py",
        "learning = args.num_agents - len(args.freeze)",
        "learning = args.num_agents",
        "test_defaults.py::test_optimism_is_on_where_partners_learn_and_several_joint_responses_"
        "count",
    ),
    (
        "evaluation/measures.py",
        "value * math.comb(rank, k - 1)",
        "value * math.comb(rank, k)",
        "test_measures.py::test_best_of_k_is_the_mean_over_all_subsets",
    ),
    (
        "evaluation/measures.py",
        "lengths[lengths > 0].mean()",
        "lengths.mean()",
        "test_measures.py::test_the_length_of_a_response_is_that_of_the_turns_at_which_its_agent_"
        "spoke",
    ),
    (
        "evaluation/measures.py",
        "gaps.sem() if",
        "gaps.std() if",
        "test_measures.py::test_a_paired_comparison_sees_what_two_errors_do_not",
    ),
    (
        "evaluation/runs.py",
        "unit = [*unit, *UNIT]",
        "pass",
        "test_compare.py::test_measures_of_other_problems_or_units_are_not_subtracted",
    ),
    (
        "evaluation/runs.py",
        "freedom = max(count - 1, 1)",
        "freedom = count",
        "test_compare.py::test_t_has_its_published_quantiles",
    ),
    (
        "evaluation/doctor.py",
        "steps.tail(fifth).mean()",
        "steps.mean()",
        "test_doctor.py::test_signs_in_the_metrics",
    ),
    (
        "examples/classeval/classes.py",
        'if method.name not in item["given"]:',
        "if True:",
        "examples/test_classeval.py::test_methods_are_found_wherever_they_stand_and_what_is_cut_off_"
        "or_empty_is_not",
    ),
)


def run_tests(copy: Path, *tests: str) -> int:
    """Return pytest's exit status. It runs in a fork, which need not import the libraries."""
    child = os.fork()
    if not child:
        status = -1
        try:
            os.chdir(copy)
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
            paths = [f"tests/{test}" for test in tests]
            options = ["-x", "-q", "-p", "no:cacheprovider", f"--basetemp={copy.parent}/temp"]
            status = pytest.main([*options, *paths])
        finally:
            os._exit(status)
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status)


def main(word: str = "") -> None:
    rows = [row for row in BREAKS if word in row[0] or word in row[3]]
    caught = 0
    for name in LIBRARIES:
        importlib.import_module(name)
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder, "copy")
        shutil.copytree(ROOT, copy, ignore=shutil.ignore_patterns(".*", "runs", "__pycache__"))
        if run_tests(copy, *dict.fromkeys(test for *_, test in rows)):
            sys.exit("a test fails without a break")
        for file, old, new, test in rows:
            source = (copy / file).read_text("utf-8")
            outcome = "text not found"
            if source.count(old) == 1:
                (copy / file).write_text(source.replace(old, new), "utf-8")
                failed = run_tests(copy, test) == FAILED
                caught += failed
                outcome = "caught" if failed else "NOT CAUGHT"
                (copy / file).write_text(source, "utf-8")
            print(f"{outcome}: {file}: {old} ({test})", flush=True)
    print(f"{caught} of {len(rows)}")
    sys.exit(caught < len(rows))


if __name__ == "__main__":
    main(*sys.argv[1:])
