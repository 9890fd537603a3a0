"""Which test runs the commands of each shell block of the documentation, and which commands none runs, with the reason.

The one list: `test_every_command.py` holds it complete.
"""

import re

HERE = "tests/documented"
INSTALLED = f"{HERE}/test_installation.py::test_the_installation_page_leads_to_a_control_plane_that_sees_a_failover"
CHECKOUT = f"{HERE}/test_installation.py::test_the_control_plane_runs_from_a_checkout_as_described"
CLUSTER = (
    "tests/pipeline/test_on_a_cluster.py::"
    "test_the_documented_line_submits_the_job_to_executors_that_have_nothing_but_spark"
)
HOST = f"{HERE}/test_installation.py::test_one_host_is_set_up_as_described_up_to_the_service_manager"
OPERATED = f"{HERE}/test_operated.py"
RESTORED = f"{HERE}/test_day_two.py::test_everything_that_was_kept_is_there_after_a_restore"
SECRETS = "tests/deployment/test_container_files.py::test_generated_secrets_fit_each_other_and_are_kept"
STRANGER = f"{HERE}/test_stranger.py::test_a_stranger_sends_through_a_failover_within_three_minutes"
BEHIND = f"{HERE}/test_stranger.py::test_a_stranger_sends_through_a_gateway_and_an_outage"
RELAY = "tests/gateway/test_relay.py"
KILLS = "tests/acceptance/test_kills.py"

TRIED_BY = {
    "docs/api.md 1": f"{OPERATED}::test_the_api_answers_the_commands_of_its_page",
    "docs/check.md 1": f"{OPERATED}::test_two_namespaces_are_checked_after_a_confirmation",
    "docs/dashboard.md 1": "tests/dashboard/management/test_pairing.py::test_the_commands_of_the_documentation",
    "docs/costs.md 1": f"{OPERATED}::test_a_month_is_computed_compared_with_its_bill_and_forecast",
    "docs/costs.md 3": f"{OPERATED}::test_a_month_is_computed_compared_with_its_bill_and_forecast",
    "docs/costs.md 4": f"{OPERATED}::test_a_month_is_computed_compared_with_its_bill_and_forecast",
    **{f"docs/day-two.md {number}": RESTORED for number in range(1, 6)},
    "docs/costs.md 5": CLUSTER,
    "docs/deployment.md 1": CHECKOUT,
    "docs/deployment.md 2": HOST,
    "docs/deployment.md 3": HOST,
    "docs/deployment.md 6": SECRETS,
    "docs/emulator.md 1": STRANGER,
    "docs/emulator.md 2": f"{OPERATED}::test_the_local_namespace_is_started_and_broken_as_its_page_says",
    "docs/emulator.md 3": f"{OPERATED}::test_the_local_namespace_reads_the_file_of_microsofts_emulator",
    "docs/emulator.md 4": f"{OPERATED}::test_the_local_namespace_is_started_and_broken_as_its_page_says",
    "docs/gateway.md 1": f"{RELAY}::test_a_client_with_a_key_of_the_gateway_has_its_credential_at_the_primary",
    **{f"docs/gateway.md {number}": BEHIND for number in (2, 3, 4)},
    "docs/installation.md 1": INSTALLED,
    "docs/installation.md 2": INSTALLED,
    "docs/installation.md 3": INSTALLED,
    "docs/observability.md 1": "tests/acceptance/test_prometheus.py::test_configuration_and_rules_are_valid",
    "docs/operations.md 1": f"{KILLS}::test_the_runbook_of_redis_shows_that_it_is_away_and_when_that_is_over",
    "docs/operations.md 2": f"{KILLS}::test_the_runbook_of_postgresql_shows_that_it_is_away_and_when_that_is_over",
    "docs/proof.md 1": f"{HERE}/test_every_command.py::test_a_schedule_of_the_campaign_is_printed",
    "docs/quickstart.md 1": INSTALLED,
    "docs/quickstart.md 2": STRANGER,
    "docs/quickstart.md 3": STRANGER,
    "docs/readiness.md 1": f"{OPERATED}::test_readiness_is_a_document_with_a_status",
}
"""The test that runs a block, by page and number: every command of it but those that no test runs."""


NOT_TRIED = {
    r"docker ": "needs a container engine; the files are held to the product by tests/deployment",
    r"mkdir deploy/container/config$": "of no use without a container engine",
    r"kubectl ": "needs a cluster; the manifests are held to the product by tests/deployment",
    r"systemctl |systemd-run |systemd-sysusers$": (
        "needs a service manager; tests/deployment/test_systemd_units.py starts what the units start"
    ),
    r"curl .*https://prices\.azure\.com/": "needs the public internet",
    r"spark-submit .*abfss://": "needs an account of Azure Storage, and packages of a Maven repository",
    r"make (test|setup)$": "is how this suite is started",
    r"make demo$": "test_fresh_checkout.py runs it in a copy; tests/acceptance/test_demo_*.py by manage.py",
    r"make campaign($| ARGS=\"(--small|--messages|--resume|--judge|--without) )": (
        "takes up to hours; tests/campaign/test_campaign.py runs, resumes and judges short ones, also without a lease"
    ),
    r"make soak ": "takes an hour; tests/campaign/test_flatness.py and test_sampling.py hold its parts",
}
"""Commands that no test runs, by a pattern of their beginning, with the reason."""


def is_tried(command: str) -> bool:
    return not any(re.match(pattern, command) for pattern in NOT_TRIED)
