"""The whole schema in one step: a fresh database gets this alone, one that has migrated before keeps its own path.

Once no database is older than 0037, the thirty-seven files that it replaces and `replaces` itself can go.
"""

import uuid

import django.db.models.deletion
from django.apps.registry import Apps
from django.conf import settings
from django.contrib.auth.management import create_permissions
from django.db import migrations, models
from django.db.backends.base.schema import BaseDatabaseSchemaEditor

from dashboard.models.failover_event import kinds


def create_groups(apps: Apps, schema_editor: BaseDatabaseSchemaEditor) -> None:
    """The groups viewer, operator and administrator; each includes the rights of the one before."""
    from django.apps import apps as installed

    for label in ("auth", "dashboard"):
        create_permissions(
            installed.get_app_config(label), apps=apps, verbosity=0, using=schema_editor.connection.alias
        )
    Permission = apps.get_model("auth", "Permission")
    Group = apps.get_model("auth", "Group")
    ours = Permission.objects.filter(content_type__app_label="dashboard")
    see = ours.filter(codename__startswith="view_")
    operate = see | ours.filter(codename="operate_pair")
    users = Permission.objects.filter(content_type__app_label="auth", content_type__model__in=("user", "group"))
    administer = operate | ours.filter(codename="administer_pair") | users
    for name, permissions in (("viewer", see), ("operator", operate), ("administrator", administer)):
        group, _ = Group.objects.get_or_create(name=name)
        group.permissions.add(*permissions)


class Migration(migrations.Migration):
    replaces = [
        ("dashboard", "0001_initial"),
        ("dashboard", "0002_groups"),
        ("dashboard", "0003_charges"),
        ("dashboard", "0004_adjustments"),
        ("dashboard", "0005_outages"),
        ("dashboard", "0006_cleanup"),
        ("dashboard", "0007_costs_budgets_statements"),
        ("dashboard", "0008_worst_first"),
        ("dashboard", "0009_opinions"),
        ("dashboard", "0010_event_kinds"),
        ("dashboard", "0011_audit_targets"),
        ("dashboard", "0012_ledgers"),
        ("dashboard", "0013_tokens_identities_audit_via"),
        ("dashboard", "0014_deliverable_since"),
        ("dashboard", "0015_readiness_and_drills"),
        ("dashboard", "0016_alerts"),
        ("dashboard", "0017_syphon_runs"),
        ("dashboard", "0018_wrong_states_are_impossible"),
        ("dashboard", "0019_peaks_of_depth"),
        ("dashboard", "0020_tiers_of_a_charge"),
        ("dashboard", "0021_problems_of_workers"),
        ("dashboard", "0022_ledger_unbalanced_events"),
        ("dashboard", "0023_entity_dead_letters"),
        ("dashboard", "0024_alerts_of_books"),
        ("dashboard", "0025_topic_subscriptions"),
        ("dashboard", "0026_peaks_of_connections"),
        ("dashboard", "0027_drill_kind"),
        ("dashboard", "0028_states_that_cannot_be"),
        ("dashboard", "0029_readiness_that_fell"),
        ("dashboard", "0030_syphon_paces"),
        ("dashboard", "0031_entity_gone"),
        ("dashboard", "0032_pings_ever"),
        ("dashboard", "0033_what_dead_letter_jobs_have_done"),
        ("dashboard", "0034_when_dead_letters_were_counted"),
        ("dashboard", "0035_closed_months"),
        ("dashboard", "0036_charges_by_pair"),
        ("dashboard", "0037_pruned_counts"),
    ]

    initial = True

    dependencies = [
        ("auth", "0012_alter_user_first_name_max_length"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
        ("contenttypes", "0002_remove_content_type_name"),
    ]

    operations = [
        migrations.CreateModel(
            name="AlertRound",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("ran_at", models.DateTimeField()),
            ],
        ),
        migrations.CreateModel(
            name="Budget",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("pair", models.CharField(default="*", max_length=63, unique=True)),
                ("cents", models.PositiveBigIntegerField()),
                ("alert_percent", models.PositiveSmallIntegerField(default=80)),
                ("set_by", models.CharField(max_length=150)),
                ("set_at", models.DateTimeField()),
            ],
            options={
                "ordering": ("pair",),
            },
        ),
        migrations.CreateModel(
            name="ChannelState",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("channel", models.CharField(max_length=63, unique=True)),
                ("failing_since", models.DateTimeField(blank=True, null=True)),
                ("reason", models.TextField(blank=True)),
                (
                    "disabled_at",
                    models.DateTimeField(blank=True, help_text="Its receiver reported that it is gone.", null=True),
                ),
                ("sent_at", models.DateTimeField(blank=True, help_text="When it last accepted a message.", null=True)),
            ],
            options={
                "ordering": ("channel",),
            },
        ),
        migrations.CreateModel(
            name="ClosedMonth",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("month", models.CharField(max_length=7, unique=True)),
                ("closed_at", models.DateTimeField()),
            ],
            options={
                "ordering": ("month",),
            },
        ),
        migrations.CreateModel(
            name="Alert",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "key",
                    models.CharField(
                        help_text="The subject of the condition, which identifies it while it lasts.", max_length=420
                    ),
                ),
                (
                    "kind",
                    models.CharField(
                        choices=[
                            ("failover", "failed over"),
                            ("forced_expiring", "forced state about to expire"),
                            ("backlog", "backlog over a threshold"),
                            ("capacity", "backlog filling up"),
                            ("stalled", "syphon stalled"),
                            ("books", "ledger unbalanced"),
                            ("dead_letters", "dead letters"),
                            ("budget", "budget reached"),
                            ("readiness", "readiness fell"),
                            ("workers", "workers silent"),
                            ("usage", "usage not written"),
                        ],
                        max_length=20,
                    ),
                ),
                (
                    "severity",
                    models.CharField(
                        choices=[("info", "Info"), ("warning", "Warning"), ("critical", "Critical")], max_length=8
                    ),
                ),
                ("pair", models.CharField(max_length=63)),
                ("entity", models.CharField(default="*", max_length=300)),
                ("title", models.CharField(max_length=300)),
                ("detail", models.TextField(blank=True)),
                ("began_at", models.DateTimeField(help_text="When the condition began, if known.")),
                ("opened_at", models.DateTimeField(help_text="When it was noticed.")),
                ("ended_at", models.DateTimeField(blank=True, help_text="When the condition was over.", null=True)),
                ("resolved_at", models.DateTimeField(blank=True, help_text="When that was noticed.", null=True)),
                ("acknowledged_at", models.DateTimeField(blank=True, null=True)),
                ("acknowledged_by", models.CharField(blank=True, max_length=150)),
            ],
            options={
                "ordering": ("-opened_at", "-id"),
                "indexes": [
                    models.Index(fields=["resolved_at", "-opened_at"], name="alert_by_end"),
                    models.Index(fields=["key", "-began_at"], name="alert_by_key"),
                ],
                "constraints": [
                    models.UniqueConstraint(
                        condition=models.Q(("resolved_at__isnull", True)), fields=("key",), name="one_open_alert"
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("resolved_at__isnull", True), ("ended_at__isnull", False), _connector="OR"),
                        name="resolved_alert_has_an_end",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("acknowledged_at__isnull", True), ("acknowledged_by", "")),
                            models.Q(
                                ("acknowledged_at__isnull", False), models.Q(("acknowledged_by", ""), _negated=True)
                            ),
                            _connector="OR",
                        ),
                        name="somebody_acknowledged_it",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="AlertRule",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("name", models.CharField(max_length=80, unique=True)),
                ("is_enabled", models.BooleanField(default=True)),
                (
                    "pair",
                    models.CharField(default="*", help_text="A name; * stands for any characters.", max_length=63),
                ),
                (
                    "entity",
                    models.CharField(default="*", help_text="A path; * stands for any characters.", max_length=300),
                ),
                ("kinds", models.JSONField(blank=True, default=list, help_text="Empty: all.")),
                (
                    "least_severity",
                    models.CharField(
                        choices=[("info", "Info"), ("warning", "Warning"), ("critical", "Critical")],
                        default="info",
                        max_length=8,
                    ),
                ),
                (
                    "threshold",
                    models.PositiveBigIntegerField(
                        blank=True, help_text="The number of messages in the backlog that raises an alert.", null=True
                    ),
                ),
                ("channels", models.JSONField(default=list, help_text="Names in CHANNELS_FILE that are notified immediately.")),
                (
                    "escalation",
                    models.JSONField(
                        blank=True, default=list, help_text="Names that are notified next, one after another."
                    ),
                ),
                ("escalate_after_min", models.PositiveIntegerField(default=15)),
                (
                    "group_s",
                    models.PositiveIntegerField(default=10, help_text="How long alerts are collected for one message."),
                ),
                ("quiet_from", models.TimeField(blank=True, null=True)),
                ("quiet_until", models.TimeField(blank=True, null=True)),
                ("time_zone", models.CharField(default="UTC", max_length=60)),
                (
                    "wakes_from",
                    models.CharField(
                        choices=[("info", "Info"), ("warning", "Warning"), ("critical", "Critical")],
                        default="critical",
                        help_text="Notified during quiet hours too.",
                        max_length=8,
                    ),
                ),
                ("tells_resolved", models.BooleanField(default=True)),
                ("changed_by", models.CharField(blank=True, max_length=150)),
                ("changed_at", models.DateTimeField()),
            ],
            options={
                "ordering": ("name",),
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("quiet_from__isnull", True), ("quiet_until__isnull", True)),
                            models.Q(("quiet_from__isnull", False), ("quiet_until__isnull", False)),
                            _connector="OR",
                        ),
                        name="quiet_hours_begin_and_end",
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="AuditEntry",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "request_id",
                    models.CharField(help_text="The same request sent twice is one entry.", max_length=36, unique=True),
                ),
                ("at", models.DateTimeField()),
                ("operator", models.CharField(max_length=150)),
                (
                    "via",
                    models.CharField(
                        blank=True, help_text="Empty: the pages. Otherwise a shell, or the token's name.", max_length=80
                    ),
                ),
                ("verb", models.CharField(max_length=40)),
                ("pair", models.CharField(max_length=63)),
                (
                    "target",
                    models.TextField(
                        default="*", help_text="`*`: the whole pair. Several entities are separated by `, `."
                    ),
                ),
                ("reason", models.TextField(blank=True)),
                (
                    "outcome",
                    models.CharField(
                        blank=True,
                        choices=[
                            ("done", "done"),
                            ("unchanged", "unchanged"),
                            ("refused", "refused"),
                            ("failed", "failed"),
                        ],
                        max_length=9,
                    ),
                ),
                ("detail", models.TextField(blank=True)),
            ],
            options={
                "verbose_name": "audit entry",
                "verbose_name_plural": "audit entries",
                "ordering": ("-at", "-id"),
                "indexes": [
                    models.Index(fields=["-at", "-id"], name="audit_by_time"),
                    models.Index(fields=["pair", "-at"], name="audit_by_pair"),
                ],
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(("outcome__in", ("", "done", "unchanged", "refused", "failed"))),
                        name="audit_outcome_is_known",
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="Availability",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("month", models.CharField(max_length=7)),
                ("pair", models.CharField(max_length=260)),
                ("entity", models.CharField(max_length=300)),
                ("episodes", models.PositiveIntegerField()),
                ("down_s", models.FloatField()),
                ("period_s", models.FloatField()),
                (
                    "repair_s",
                    models.FloatField(
                        blank=True, help_text="Mean time to repair, of the outages that ended.", null=True
                    ),
                ),
            ],
            options={
                "verbose_name_plural": "availabilities",
                "ordering": ("-down_s", "pair", "entity"),
                "constraints": [
                    models.UniqueConstraint(fields=("month", "pair", "entity"), name="one_availability_per_month")
                ],
            },
        ),
        migrations.CreateModel(
            name="BacklogRollup",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("pair", models.CharField(max_length=63)),
                (
                    "queue",
                    models.CharField(
                        help_text="The path of a backlog queue; * is all of the pair together.", max_length=300
                    ),
                ),
                ("month", models.CharField(max_length=7)),
                ("begins_at", models.DateTimeField()),
                ("is_day", models.BooleanField(help_text="A whole day; an hour otherwise.")),
                ("samples", models.PositiveIntegerField()),
                ("deepest", models.BigIntegerField()),
                ("p50", models.BigIntegerField()),
                ("p95", models.BigIntegerField()),
            ],
            options={
                "ordering": ("begins_at", "pair", "queue"),
                "indexes": [models.Index(fields=["month", "is_day"], name="rollups_of_a_month")],
                "constraints": [
                    models.UniqueConstraint(
                        fields=("pair", "queue", "begins_at", "is_day"), name="one_rollup_per_period"
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="BudgetAlert",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("month", models.CharField(max_length=7)),
                ("pair", models.CharField(max_length=63)),
                (
                    "percent",
                    models.PositiveSmallIntegerField(help_text="The share that was reached: that of the budget, or 100."),
                ),
                ("cents", models.BigIntegerField(help_text="The cost of the month at that time.")),
                ("budget_cents", models.BigIntegerField()),
                ("currency", models.CharField(max_length=3)),
                ("raised_at", models.DateTimeField()),
            ],
            options={
                "ordering": ("-raised_at", "pair"),
                "constraints": [
                    models.UniqueConstraint(fields=("month", "pair", "percent"), name="one_alert_per_share")
                ],
            },
        ),
        migrations.CreateModel(
            name="ChargeRun",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("month", models.CharField(max_length=7)),
                (
                    "status",
                    models.CharField(
                        choices=[
                            ("wanted", "Wanted"),
                            ("running", "Running"),
                            ("succeeded", "Succeeded"),
                            ("failed", "Failed"),
                        ],
                        default="running",
                        max_length=10,
                    ),
                ),
                (
                    "rule",
                    models.CharField(
                        choices=[
                            ("published", "published: transfers only"),
                            ("settlements", "settlements: settling counts too"),
                        ],
                        default="published",
                        max_length=12,
                    ),
                ),
                ("allocation", models.CharField(default="time", max_length=10)),
                ("stage", models.CharField(blank=True, max_length=80)),
                ("share", models.FloatField(default=0)),
                ("rows", models.BigIntegerField(default=0)),
                (
                    "details",
                    models.JSONField(default=dict, help_text="Counts, reasons and price rows from the job."),
                ),
                ("error", models.TextField(blank=True)),
                ("started_by", models.CharField(blank=True, max_length=150)),
                ("started_at", models.DateTimeField()),
                ("heard_at", models.DateTimeField()),
                ("finished_at", models.DateTimeField(blank=True, null=True)),
            ],
            options={
                "ordering": ("-started_at", "-id"),
                "indexes": [models.Index(fields=["month", "-started_at"], name="charge_runs_of_a_month")],
            },
        ),
        migrations.CreateModel(
            name="FailoverEvent",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("event_id", models.CharField(max_length=36, unique=True)),
                ("time", models.DateTimeField()),
                ("pair", models.CharField(max_length=260)),
                ("entity", models.CharField(max_length=260)),
                (
                    "kind",
                    models.CharField(
                        choices=kinds,
                        max_length=20,
                    ),
                ),
                ("reason", models.TextField(blank=True)),
                ("process", models.CharField(blank=True, max_length=300)),
                ("operator", models.CharField(blank=True, max_length=150, null=True)),
                (
                    "alerted_at",
                    models.DateTimeField(
                        blank=True, editable=False, help_text="When the alerts evaluated it.", null=True
                    ),
                ),
            ],
            options={
                "ordering": ("-time", "-id"),
                "indexes": [
                    models.Index(fields=["-time", "-id"], name="event_by_time"),
                    models.Index(fields=["pair", "-time"], name="event_by_pair"),
                    models.Index(fields=["pair", "entity", "-time"], name="event_by_entity"),
                    models.Index(fields=["kind", "-time"], name="event_by_kind"),
                    models.Index(
                        condition=models.Q(("alerted_at__isnull", True)), fields=["time"], name="event_without_alert"
                    ),
                ],
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(("kind__regex", "^[a-z][a-z_]*$")), name="event_kind_is_a_word"
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="Heartbeat",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("process", models.CharField(max_length=300, unique=True)),
                ("role", models.CharField(max_length=60)),
                ("seen_at", models.DateTimeField()),
                (
                    "problems",
                    models.JSONField(
                        blank=True, default=dict, help_text="Its problems, by pair or by backlog queue."
                    ),
                ),
            ],
            options={
                "ordering": ("role", "process"),
                "indexes": [models.Index(fields=["-seen_at"], name="heartbeat_by_time")],
            },
        ),
        migrations.CreateModel(
            name="Invoice",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("month", models.CharField(max_length=7)),
                ("scope", models.CharField(max_length=200)),
                (
                    "rule",
                    models.CharField(
                        choices=[
                            ("published", "published: transfers only"),
                            ("settlements", "settlements: settling counts too"),
                        ],
                        max_length=12,
                    ),
                ),
                ("allocation", models.CharField(max_length=10)),
                ("currency", models.CharField(max_length=3)),
                ("cents", models.BigIntegerField()),
                ("exact", models.CharField(max_length=40)),
                ("units", models.BigIntegerField(help_text="Billable operations of the month.")),
                (
                    "tiers",
                    models.JSONField(
                        default=list, help_text="The units in each price tier; then Basic's, then Premium's."
                    ),
                ),
                (
                    "unpriced_bytes",
                    models.BigIntegerField(default=0, help_text="They crossed regions at an unknown price."),
                ),
                (
                    "closed_at",
                    models.DateTimeField(blank=True, help_text="After this time only adjustments change it.", null=True),
                ),
                (
                    "run",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="invoices", to="dashboard.chargerun"
                    ),
                ),
            ],
            options={
                "ordering": ("month", "scope", "rule"),
                "constraints": [
                    models.UniqueConstraint(fields=("month", "scope", "rule"), name="one_invoice_per_scope_and_rule")
                ],
            },
        ),
        migrations.CreateModel(
            name="DailyCharge",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("date", models.DateField()),
                ("kind", models.CharField(max_length=30)),
                ("operations", models.BigIntegerField()),
                ("billing_units", models.BigIntegerField()),
                ("exact", models.CharField(max_length=40)),
                (
                    "invoice",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="days", to="dashboard.invoice"
                    ),
                ),
            ],
            options={
                "ordering": ("date", "kind"),
                "constraints": [
                    models.UniqueConstraint(fields=("invoice", "date", "kind"), name="one_daily_charge_per_kind")
                ],
            },
        ),
        migrations.CreateModel(
            name="Charge",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("pair", models.CharField(blank=True, max_length=63)),
                ("namespace", models.CharField(max_length=260)),
                ("entity", models.CharField(max_length=300)),
                ("kind", models.CharField(max_length=30)),
                ("operations", models.BigIntegerField()),
                ("messages", models.BigIntegerField(default=0)),
                ("bytes", models.BigIntegerField(default=0)),
                ("billing_units", models.BigIntegerField()),
                ("included_units", models.BigIntegerField()),
                ("quantity", models.CharField(max_length=40)),
                ("exact", models.CharField(max_length=40)),
                ("cents", models.BigIntegerField()),
                (
                    "tiers",
                    models.JSONField(
                        default=list, help_text="Its units in each price tier; then Basic's, then Premium's."
                    ),
                ),
                (
                    "invoice",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="charges", to="dashboard.invoice"
                    ),
                ),
            ],
            options={
                "ordering": ("namespace", "entity", "kind", "pair"),
                "constraints": [
                    models.UniqueConstraint(
                        fields=("invoice", "namespace", "entity", "kind", "pair"), name="one_charge_per_key"
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="Adjustment",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("pair", models.CharField(blank=True, max_length=63)),
                ("namespace", models.CharField(max_length=260)),
                ("entity", models.CharField(max_length=300)),
                ("kind", models.CharField(max_length=30)),
                ("cents", models.BigIntegerField()),
                ("made_at", models.DateTimeField()),
                (
                    "run",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="adjustments",
                        to="dashboard.chargerun",
                    ),
                ),
                (
                    "invoice",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="adjustments", to="dashboard.invoice"
                    ),
                ),
            ],
            options={
                "ordering": ("made_at", "namespace", "entity", "kind"),
            },
        ),
        migrations.CreateModel(
            name="Notice",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("notice_id", models.UUIDField(default=uuid.uuid4, editable=False, unique=True)),
                ("channel", models.CharField(max_length=63)),
                (
                    "phase",
                    models.CharField(
                        choices=[
                            ("opened", "Opened"),
                            ("escalated", "Escalated"),
                            ("resolved", "Resolved"),
                            ("test", "Test"),
                        ],
                        max_length=9,
                    ),
                ),
                ("kind", models.CharField(blank=True, max_length=20)),
                ("pair", models.CharField(default="*", max_length=63)),
                ("is_quiet", models.BooleanField(default=False, help_text="Delayed until the end of quiet hours.")),
                ("created_at", models.DateTimeField()),
                ("due_at", models.DateTimeField()),
                (
                    "state",
                    models.CharField(
                        choices=[
                            ("waiting", "Waiting"),
                            ("sent", "Sent"),
                            ("given_up", "given up"),
                            ("dropped", "Dropped"),
                        ],
                        default="waiting",
                        max_length=8,
                    ),
                ),
                (
                    "message",
                    models.JSONField(blank=True, help_text="The content, fixed at the first attempt.", null=True),
                ),
                ("attempts", models.PositiveIntegerField(default=0)),
                ("claimed_until", models.DateTimeField(blank=True, null=True)),
                ("claimed_by", models.CharField(blank=True, max_length=32)),
                (
                    "status",
                    models.PositiveIntegerField(blank=True, help_text="Of the last HTTP response.", null=True),
                ),
                (
                    "reason",
                    models.TextField(blank=True, help_text="Why the last attempt failed, or why it was not sent."),
                ),
                ("ended_at", models.DateTimeField(blank=True, null=True)),
                ("by", models.CharField(blank=True, help_text="Who requested the test.", max_length=150)),
                (
                    "rule",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to="dashboard.alertrule",
                    ),
                ),
            ],
            options={
                "ordering": ("-created_at", "-id"),
                "indexes": [
                    models.Index(condition=models.Q(("state", "waiting")), fields=["due_at"], name="notice_by_due"),
                    models.Index(fields=["channel", "-created_at"], name="notice_by_channel"),
                    models.Index(fields=["-created_at", "-id"], name="notice_by_time"),
                ],
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("ended_at__isnull", True), ("state", "waiting")),
                            models.Q(models.Q(("state", "waiting"), _negated=True), ("ended_at__isnull", False)),
                            _connector="OR",
                        ),
                        name="notice_ends_in_an_end",
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="NoticeItem",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("channel", models.CharField(max_length=63)),
                (
                    "phase",
                    models.CharField(
                        choices=[
                            ("opened", "Opened"),
                            ("escalated", "Escalated"),
                            ("resolved", "Resolved"),
                            ("test", "Test"),
                        ],
                        max_length=9,
                    ),
                ),
                (
                    "alert",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="items", to="dashboard.alert"
                    ),
                ),
                (
                    "notice",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="items", to="dashboard.notice"
                    ),
                ),
            ],
            options={
                "constraints": [models.UniqueConstraint(fields=("alert", "channel", "phase"), name="told_once")],
            },
        ),
        migrations.CreateModel(
            name="Outage",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("month", models.CharField(max_length=7)),
                ("pair", models.CharField(max_length=260)),
                ("entity", models.CharField(max_length=300)),
                ("started_at", models.DateTimeField()),
                ("ended_at", models.DateTimeField(blank=True, null=True)),
                ("cause", models.CharField(max_length=20)),
                ("reason", models.TextField(blank=True)),
                ("down_s", models.FloatField(help_text="Inside the month.")),
                (
                    "units",
                    models.JSONField(default=dict, help_text="Billable units by kind, to the entity's next outage."),
                ),
                (
                    "extra",
                    models.JSONField(
                        default=dict, help_text="By counting rule: operations that it caused."
                    ),
                ),
                (
                    "run",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="outages", to="dashboard.chargerun"
                    ),
                ),
            ],
            options={
                "ordering": ("-started_at", "pair", "entity"),
                "indexes": [models.Index(fields=["month", "-started_at"], name="outages_of_a_month")],
            },
        ),
        migrations.CreateModel(
            name="Pair",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("name", models.CharField(max_length=63, unique=True)),
                ("primary_namespace", models.CharField(max_length=260)),
                ("secondary_namespace", models.CharField(max_length=260)),
                ("primary_region", models.CharField(blank=True, max_length=60)),
                ("secondary_region", models.CharField(blank=True, max_length=60)),
                ("primary_tier", models.CharField(default="standard", max_length=20)),
                ("secondary_tier", models.CharField(default="standard", max_length=20)),
                ("backlog_queue_count", models.PositiveIntegerField(default=10)),
                ("failover_interval_s", models.FloatField(default=60)),
                ("ping_primary_interval_s", models.FloatField(default=60)),
                ("is_emulated", models.BooleanField(default=False, help_text="Both namespaces run on this host.")),
                ("is_configured", models.BooleanField(default=True, help_text="PAIRS_FILE names it.")),
                ("synced_at", models.DateTimeField()),
                (
                    "dead_letters_at",
                    models.DateTimeField(blank=True, help_text="When the dead letters of its queues were counted.", null=True),
                ),
            ],
            options={
                "ordering": ("name",),
                "permissions": (
                    ("operate_pair", "Can fail over, hold, release and heal entities, pause and resume syphons"),
                    ("administer_pair", "Can delete what holds messages"),
                ),
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(("backlog_queue_count__gte", 1)), name="pair_has_a_backlog_queue"
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("failover_interval_s__gte", 0), ("ping_primary_interval_s__gt", 0)),
                        name="pair_has_its_intervals",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("primary_namespace", models.F("secondary_namespace")), _negated=True),
                        name="pair_has_two_namespaces",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="EntityHealth",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("path", models.CharField(max_length=260)),
                (
                    "kind",
                    models.CharField(choices=[("queue", "Queue"), ("topic", "Topic")], default="queue", max_length=5),
                ),
                (
                    "state",
                    models.CharField(
                        choices=[
                            ("unknown", "Unknown"),
                            ("healthy", "Healthy"),
                            ("failing", "Failing"),
                            ("failed_over", "Failed Over"),
                        ],
                        default="unknown",
                        max_length=11,
                    ),
                ),
                ("since", models.DateTimeField(blank=True, null=True)),
                ("reason", models.TextField(blank=True)),
                ("held_by", models.CharField(blank=True, max_length=150, null=True)),
                ("expires", models.DateTimeField(blank=True, null=True)),
                (
                    "origin",
                    models.CharField(
                        choices=[("organic", "organic"), ("forced", "forced")], default="organic", max_length=7
                    ),
                ),
                ("version", models.BigIntegerField(default=0)),
                ("process", models.CharField(blank=True, max_length=300)),
                ("applied_at", models.DateTimeField(blank=True, null=True)),
                (
                    "failed_over_in",
                    models.PositiveIntegerField(blank=True, help_text="Processes that do not dispute it.", null=True),
                ),
                (
                    "processes",
                    models.PositiveIntegerField(
                        blank=True, help_text="Living processes that send; empty: all.", null=True
                    ),
                ),
                ("is_configured", models.BooleanField(default=False, help_text="PAIRS_FILE names it.")),
                (
                    "gone_at",
                    models.DateTimeField(
                        blank=True,
                        help_text="Since when it is neither in PAIRS_FILE nor in the primary.",
                        null=True,
                    ),
                ),
                ("last_ping_at", models.DateTimeField(blank=True, null=True)),
                ("last_ping_accepted", models.BooleanField(blank=True, null=True)),
                ("last_ping_reason", models.TextField(blank=True)),
                ("ping_count", models.PositiveIntegerField(default=0)),
                (
                    "pings_ever",
                    models.PositiveBigIntegerField(default=0, help_text="In all its failovers; never decreases."),
                ),
                ("next_ping_at", models.DateTimeField(blank=True, null=True)),
                (
                    "rank",
                    models.GeneratedField(
                        db_persist=True,
                        expression=models.Case(
                            models.When(state="failed_over", then=models.Value(0)),
                            models.When(state="failing", then=models.Value(1)),
                            models.When(then=models.Value(2), waiting__gt=0),
                            default=models.Value(3),
                        ),
                        help_text="Worst first, so that an index serves the first page of a long list.",
                        output_field=models.PositiveSmallIntegerField(),
                    ),
                ),
                (
                    "waiting",
                    models.PositiveBigIntegerField(blank=True, help_text="Messages for it in the backlog.", null=True),
                ),
                ("waiting_is_complete", models.BooleanField(default=True, help_text="False: an estimate.")),
                ("waiting_at", models.DateTimeField(blank=True, null=True)),
                ("oldest_waiting_at", models.DateTimeField(blank=True, null=True)),
                (
                    "dead_lettered",
                    models.PositiveBigIntegerField(
                        blank=True, help_text="Its dead letters in the primary; empty: unknown.", null=True
                    ),
                ),
                (
                    "pair",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="entities", to="dashboard.pair"
                    ),
                ),
            ],
            options={
                "verbose_name": "entity",
                "verbose_name_plural": "entities",
                "ordering": ("path",),
                "indexes": [
                    models.Index(fields=["pair", "state"], name="entity_by_state"),
                    models.Index(fields=["rank", "pair", "path"], name="entity_worst_first"),
                    models.Index(fields=["pair", "rank", "path"], name="entity_worst_of_pair"),
                ],
                "constraints": [
                    models.UniqueConstraint(fields=("pair", "path"), name="entity_once_per_pair"),
                    models.CheckConstraint(
                        condition=models.Q(("state__in", ("unknown", "healthy", "failing", "failed_over"))),
                        name="entity_state_is_known",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("kind__in", ("queue", "topic"))), name="entity_kind_is_known"
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("state", "unknown"), ("since__isnull", False), _connector="OR"),
                        name="entity_state_has_a_beginning",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("held_by__isnull", True), ("state", "failed_over"), _connector="OR"),
                        name="only_failed_over_is_held",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("expires__isnull", True), ("held_by__isnull", False), _connector="OR"),
                        name="only_what_is_held_expires",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("last_ping_accepted__isnull", True), ("last_ping_at__isnull", True)),
                            models.Q(("last_ping_accepted__isnull", False), ("last_ping_at__isnull", False)),
                            _connector="OR",
                        ),
                        name="a_ping_is_accepted_or_not",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("oldest_waiting_at__isnull", True), ("waiting__gt", 0), _connector="OR"),
                        name="the_oldest_is_one_that_waits",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("origin__in", ("organic", "forced"))), name="entity_origin_is_known"
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("failed_over_in__isnull", True), ("processes__isnull", True)),
                            models.Q(
                                ("failed_over_in__isnull", False),
                                ("failed_over_in__lte", models.F("processes")),
                                ("processes__isnull", False),
                            ),
                            _connector="OR",
                        ),
                        name="some_of_all_processes",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="Drill",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("path", models.CharField(max_length=300)),
                ("by", models.CharField(max_length=150)),
                ("reason", models.TextField(blank=True)),
                ("at", models.DateTimeField()),
                ("request_id", models.CharField(max_length=36, unique=True)),
                ("claimed_until", models.DateTimeField(blank=True, null=True)),
                ("claimed_by", models.CharField(blank=True, max_length=32)),
                ("ended_at", models.DateTimeField(blank=True, null=True)),
                ("detail", models.TextField(blank=True)),
                (
                    "kind",
                    models.CharField(
                        choices=[("queue", "Queue"), ("session_queue", "queue with sessions"), ("topic", "Topic")],
                        default="queue",
                        help_text="The type of the canary.",
                        max_length=13,
                    ),
                ),
                ("step", models.CharField(default="preparing", max_length=12)),
                ("messages", models.PositiveIntegerField(default=30)),
                ("is_scheduled", models.BooleanField(default=False)),
                ("creates_canary", models.BooleanField(default=False)),
                (
                    "expires_at",
                    models.DateTimeField(help_text="When the forced failover expires in any case."),
                ),
                ("course", models.JSONField(blank=True, default=dict, help_text="Progress and observations.")),
                ("attempts", models.PositiveIntegerField(default=0, help_text="How often a worker has claimed it.")),
                ("abort_wanted_by", models.CharField(blank=True, max_length=150)),
                (
                    "outcome",
                    models.CharField(
                        blank=True,
                        choices=[("passed", "Passed"), ("failed", "Failed"), ("aborted", "Aborted")],
                        max_length=7,
                    ),
                ),
                ("report", models.JSONField(blank=True, default=dict)),
                (
                    "pair",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="+", to="dashboard.pair"
                    ),
                ),
            ],
            options={
                "ordering": ("-at", "-id"),
                "abstract": False,
                "indexes": [models.Index(fields=["pair", "path", "-at"], name="drill_of_canary")],
                "constraints": [
                    models.UniqueConstraint(
                        condition=models.Q(("ended_at__isnull", True)),
                        fields=("pair",),
                        name="one_open_drill_of_a_pair",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("ended_at__isnull", True), ("outcome", "")),
                            models.Q(("ended_at__isnull", False), models.Q(("outcome", ""), _negated=True)),
                            _connector="OR",
                        ),
                        name="drill_ends_with_an_outcome",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="DepthPeak",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("path", models.CharField(default="*", max_length=260)),
                ("step_s", models.PositiveIntegerField(help_text="How long the step is, in seconds.")),
                ("at", models.DateTimeField(help_text="When the step begins: a multiple of its length.")),
                ("peak", models.PositiveBigIntegerField()),
                ("last", models.PositiveBigIntegerField(help_text="Messages waiting at the end of the step.")),
                (
                    "pair",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="peaks", to="dashboard.pair"
                    ),
                ),
            ],
            options={
                "ordering": ("pair", "path", "at"),
                "indexes": [models.Index(fields=["pair", "step_s", "at"], name="peaks_of_a_pair")],
                "constraints": [
                    models.UniqueConstraint(fields=("pair", "path", "step_s", "at"), name="one_peak_of_a_step"),
                    models.CheckConstraint(condition=models.Q(("step_s__gt", 0)), name="a_step_has_a_length"),
                    models.CheckConstraint(
                        condition=models.Q(("peak__gte", models.F("last"))), name="a_peak_is_the_highest"
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="DeadLetterJob",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("by", models.CharField(max_length=150)),
                ("reason", models.TextField(blank=True)),
                ("at", models.DateTimeField()),
                ("request_id", models.CharField(max_length=36, unique=True)),
                ("claimed_until", models.DateTimeField(blank=True, null=True)),
                ("claimed_by", models.CharField(blank=True, max_length=32)),
                ("ended_at", models.DateTimeField(blank=True, null=True)),
                ("detail", models.TextField(blank=True)),
                ("path", models.CharField(max_length=330)),
                ("kind", models.CharField(choices=[("resubmit", "Resubmit"), ("discard", "Discard")], max_length=8)),
                (
                    "destination",
                    models.CharField(
                        blank=True, help_text="Empty: each to its original entity.", max_length=300
                    ),
                ),
                ("numbers", models.JSONField(default=list, help_text="Sequence numbers; empty: all up to `upto`.")),
                ("upto", models.BigIntegerField(help_text="The highest sequence number at the time of the request.")),
                ("finished", models.JSONField(default=list, help_text="The processed ones of `numbers`.")),
                (
                    "under_way",
                    models.JSONField(default=list, help_text="Messages in progress: one that is gone is done."),
                ),
                ("total", models.PositiveBigIntegerField(default=0)),
                ("done", models.PositiveBigIntegerField(default=0)),
                ("failed", models.PositiveBigIntegerField(default=0)),
                (
                    "pair",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="+", to="dashboard.pair"
                    ),
                ),
            ],
            options={
                "ordering": ("-at", "-id"),
                "abstract": False,
                "constraints": [
                    models.UniqueConstraint(
                        condition=models.Q(("ended_at__isnull", True)),
                        fields=("pair", "path"),
                        name="one_open_job_of_dead_letters",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("kind", "resubmit"), models.Q(("destination", ""), ("kind", "discard")), _connector="OR"
                        ),
                        name="job_does_one_of_two_things",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="BacklogQueue",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("path", models.CharField(max_length=300)),
                ("index", models.PositiveIntegerField(blank=True, null=True)),
                ("active", models.PositiveBigIntegerField(default=0)),
                ("scheduled", models.PositiveBigIntegerField(default=0)),
                ("dead_lettered", models.PositiveBigIntegerField(default=0)),
                ("transfer", models.PositiveBigIntegerField(default=0)),
                ("transfer_dead_lettered", models.PositiveBigIntegerField(default=0)),
                ("size_bytes", models.PositiveBigIntegerField(default=0)),
                ("max_size_bytes", models.PositiveBigIntegerField(default=0)),
                ("status", models.CharField(default="Active", max_length=30)),
                ("deviations", models.JSONField(blank=True, default=dict, help_text="{property: [expected, actual]}")),
                ("is_orphan", models.BooleanField(default=False)),
                ("created_at", models.DateTimeField(blank=True, null=True)),
                ("accessed_at", models.DateTimeField(blank=True, null=True)),
                (
                    "deliverable_since",
                    models.DateTimeField(
                        blank=True, help_text="Since when it holds messages for entities that accept them.", null=True
                    ),
                ),
                ("seen_at", models.DateTimeField()),
                ("is_gone", models.BooleanField(default=False, help_text="It does not exist in the namespace any more.")),
                (
                    "pair",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="backlog_queues", to="dashboard.pair"
                    ),
                ),
            ],
            options={
                "ordering": ("pair", "index", "path"),
                "indexes": [models.Index(fields=["pair", "is_gone"], name="backlog_queue_by_pair")],
                "constraints": [
                    models.UniqueConstraint(fields=("pair", "path"), name="backlog_queue_once_per_pair"),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("is_gone", False),
                            models.Q(
                                ("active", 0),
                                ("dead_lettered", 0),
                                ("deliverable_since__isnull", True),
                                ("scheduled", 0),
                                ("size_bytes", 0),
                                ("transfer", 0),
                                ("transfer_dead_lettered", 0),
                            ),
                            _connector="OR",
                        ),
                        name="what_is_gone_holds_nothing",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="PairDepth",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("at", models.DateTimeField()),
                ("messages", models.PositiveBigIntegerField()),
                ("dead_lettered", models.PositiveBigIntegerField(default=0)),
                ("size_bytes", models.PositiveBigIntegerField(default=0)),
                (
                    "pair",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="depths", to="dashboard.pair"
                    ),
                ),
            ],
            options={
                "indexes": [models.Index(fields=["at"], name="pair_depth_by_time")],
                "constraints": [models.UniqueConstraint(fields=("pair", "at"), name="pair_sampled_once_a_moment")],
            },
        ),
        migrations.CreateModel(
            name="PairReadiness",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "score",
                    models.PositiveSmallIntegerField(
                        blank=True, help_text="Of an entity without faults of its own.", null=True
                    ),
                ),
                (
                    "checks",
                    models.JSONField(blank=True, default=list, help_text="The checks, as JSON objects."),
                ),
                (
                    "probes",
                    models.JSONField(
                        blank=True, default=dict, help_text="The probed rights and their results."
                    ),
                ),
                ("checked_at", models.DateTimeField(blank=True, null=True)),
                ("due_at", models.DateTimeField()),
                (
                    "pair",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE, related_name="readiness", to="dashboard.pair"
                    ),
                ),
            ],
            options={
                "verbose_name_plural": "readiness of pairs",
                "ordering": ("pair",),
            },
        ),
        migrations.CreateModel(
            name="PrunedCount",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("counter", models.CharField(max_length=60)),
                ("pair", models.CharField(max_length=260)),
                (
                    "label",
                    models.CharField(
                        blank=True, help_text="The kind of event or the backlog queue, if any.", max_length=300
                    ),
                ),
                ("count", models.BigIntegerField(default=0)),
            ],
            options={
                "ordering": ("counter", "pair", "label"),
                "constraints": [
                    models.UniqueConstraint(fields=("counter", "pair", "label"), name="pruned_count_once"),
                    models.CheckConstraint(condition=models.Q(("count__gte", 0)), name="pruned_count_not_negative"),
                ],
            },
        ),
        migrations.CreateModel(
            name="QueueDeletion",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("path", models.CharField(max_length=300)),
                ("by", models.CharField(max_length=150)),
                ("reason", models.TextField(blank=True)),
                ("at", models.DateTimeField()),
                ("request_id", models.CharField(max_length=36, unique=True)),
                ("claimed_until", models.DateTimeField(blank=True, null=True)),
                ("claimed_by", models.CharField(blank=True, max_length=32)),
                ("ended_at", models.DateTimeField(blank=True, null=True)),
                ("detail", models.TextField(blank=True)),
                (
                    "stage",
                    models.CharField(
                        choices=[
                            ("wanted", "Wanted"),
                            ("quarantined", "Quarantined"),
                            ("deleting", "Deleting"),
                            ("returning", "Returning"),
                            ("deleted", "Deleted"),
                            ("taken_back", "Taken Back"),
                            ("kept", "Kept"),
                        ],
                        default="wanted",
                        max_length=11,
                    ),
                ),
                ("due_at", models.DateTimeField()),
                (
                    "returns_as",
                    models.CharField(
                        blank=True,
                        choices=[
                            ("wanted", "Wanted"),
                            ("quarantined", "Quarantined"),
                            ("deleting", "Deleting"),
                            ("returning", "Returning"),
                            ("deleted", "Deleted"),
                            ("taken_back", "Taken Back"),
                            ("kept", "Kept"),
                        ],
                        max_length=11,
                    ),
                ),
                ("status_before", models.CharField(default="Active", max_length=30)),
                ("queue_created_at", models.CharField(help_text="Identifies the queue, together with its path.", max_length=40)),
                ("counts", models.JSONField(help_text="What the queue held when the deletion was confirmed.")),
                (
                    "pair",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="+", to="dashboard.pair"
                    ),
                ),
            ],
            options={
                "ordering": ("-at", "-id"),
                "abstract": False,
                "indexes": [models.Index(fields=["ended_at", "due_at"], name="deletion_by_due")],
                "constraints": [
                    models.UniqueConstraint(
                        condition=models.Q(("ended_at__isnull", True)),
                        fields=("pair", "path"),
                        name="one_open_deletion_of_a_queue",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("ended_at__isnull", False), ("stage__in", ("deleted", "taken_back", "kept"))),
                            models.Q(
                                ("ended_at__isnull", True),
                                ("stage__in", ("wanted", "quarantined", "deleting", "returning")),
                            ),
                            _connector="OR",
                        ),
                        name="deletion_ends_in_an_end",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("stage", "returning"), _negated=True),
                            ("returns_as__in", ("taken_back", "kept")),
                            _connector="OR",
                        ),
                        name="what_returns_knows_as_what",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="QueueDrain",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("path", models.CharField(max_length=300)),
                ("by", models.CharField(max_length=150)),
                ("reason", models.TextField(blank=True)),
                ("at", models.DateTimeField()),
                ("request_id", models.CharField(max_length=36, unique=True)),
                ("claimed_until", models.DateTimeField(blank=True, null=True)),
                ("claimed_by", models.CharField(blank=True, max_length=32)),
                ("ended_at", models.DateTimeField(blank=True, null=True)),
                ("detail", models.TextField(blank=True)),
                ("moved", models.PositiveBigIntegerField(default=0)),
                ("waiting", models.PositiveBigIntegerField(default=0)),
                (
                    "pair",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="+", to="dashboard.pair"
                    ),
                ),
            ],
            options={
                "ordering": ("-at", "-id"),
                "abstract": False,
                "constraints": [
                    models.UniqueConstraint(
                        condition=models.Q(("ended_at__isnull", True)),
                        fields=("pair", "path"),
                        name="one_open_drain_of_a_queue",
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="Readiness",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("entity", models.CharField(max_length=260)),
                ("score", models.PositiveSmallIntegerField()),
                (
                    "previous_score",
                    models.PositiveSmallIntegerField(
                        blank=True,
                        help_text="Before it fell; if it has not fallen, before the last change.",
                        null=True,
                    ),
                ),
                (
                    "fell_at",
                    models.DateTimeField(
                        blank=True, help_text="When it last fell; empty once it is restored.", null=True
                    ),
                ),
                (
                    "reasons",
                    models.JSONField(
                        blank=True, default=list, help_text="The checks that are not good, worst first."
                    ),
                ),
                ("checked_at", models.DateTimeField()),
                (
                    "own",
                    models.JSONField(blank=True, default=dict, help_text="The results of its own checks, by name."),
                ),
                (
                    "probe",
                    models.JSONField(
                        blank=True, default=dict, help_text="Whether workers may send to it in the primary."
                    ),
                ),
                ("probed_at", models.DateTimeField(blank=True, null=True)),
                (
                    "pair",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="readinesses", to="dashboard.pair"
                    ),
                ),
            ],
            options={
                "verbose_name_plural": "readiness of entities",
                "ordering": ("score", "pair", "entity"),
                "indexes": [
                    models.Index(fields=["score", "pair", "entity"], name="readiness_worst_first"),
                    models.Index(fields=["pair", "score", "entity"], name="readiness_worst_of_pair"),
                    models.Index(fields=["pair", "probed_at"], name="readiness_by_probe"),
                ],
                "constraints": [
                    models.UniqueConstraint(fields=("pair", "entity"), name="readiness_once_per_entity"),
                    models.CheckConstraint(condition=models.Q(("score__lte", 100)), name="readiness_is_a_percentage"),
                ],
            },
        ),
        migrations.CreateModel(
            name="ReadinessChange",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("entity", models.CharField(default="*", max_length=260)),
                ("at", models.DateTimeField()),
                (
                    "verdicts",
                    models.JSONField(help_text="By the name of the check: those of the pair, or of the entity."),
                ),
                (
                    "pair",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="+", to="dashboard.pair"
                    ),
                ),
            ],
            options={
                "ordering": ("at", "id"),
                "indexes": [
                    models.Index(fields=["pair", "entity", "at"], name="readiness_change_of_entity"),
                    models.Index(fields=["at"], name="readiness_change_by_time"),
                ],
            },
        ),
        migrations.CreateModel(
            name="Statement",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("month", models.CharField(max_length=7)),
                (
                    "source",
                    models.CharField(
                        choices=[("export", "Azure cost export"), ("metrics", "Azure Monitor metrics")], max_length=8
                    ),
                ),
                ("name", models.CharField(help_text="The name of the uploaded file.", max_length=200)),
                ("digest", models.CharField(help_text="SHA-256 of the file.", max_length=64)),
                ("rows", models.PositiveIntegerField()),
                ("skipped", models.JSONField(default=dict, help_text="Rows left out, by reason.")),
                ("currency", models.CharField(blank=True, max_length=3)),
                ("uploaded_by", models.CharField(max_length=150)),
                ("uploaded_at", models.DateTimeField()),
            ],
            options={
                "ordering": ("-uploaded_at",),
                "constraints": [models.UniqueConstraint(fields=("month", "source"), name="one_statement_of_a_source")],
            },
        ),
        migrations.CreateModel(
            name="ConnectionDay",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("date", models.DateField()),
                ("scope", models.CharField(blank=True, max_length=200)),
                ("namespace", models.CharField(max_length=260)),
                ("peaks", models.JSONField(help_text="By hour (UTC), from 0 to 23; null if unknown.")),
                (
                    "statement",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="connections",
                        to="dashboard.statement",
                    ),
                ),
            ],
            options={
                "ordering": ("date", "namespace"),
            },
        ),
        migrations.CreateModel(
            name="BilledDay",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("date", models.DateField()),
                ("scope", models.CharField(blank=True, max_length=200)),
                ("namespace", models.CharField(max_length=260)),
                ("meter", models.CharField(max_length=120)),
                (
                    "quantity",
                    models.CharField(
                        help_text="In single units: operations, hours, connections, bytes.", max_length=40
                    ),
                ),
                ("cost", models.CharField(blank=True, max_length=40)),
                (
                    "statement",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="days", to="dashboard.statement"
                    ),
                ),
            ],
            options={
                "ordering": ("date", "meter", "namespace"),
            },
        ),
        migrations.CreateModel(
            name="SyphonLedger",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("queue", models.CharField(max_length=300)),
                ("began_at", models.DateTimeField(help_text="The enqueue time of its first message.")),
                ("ended_at", models.DateTimeField(blank=True, help_text="When it was found empty.", null=True)),
                ("enqueued", models.PositiveBigIntegerField(default=0)),
                ("home", models.PositiveBigIntegerField(default=0, help_text="Messages with a known outcome.")),
                ("moved_at", models.DateTimeField(help_text="When the last of them was processed, as of the last look.")),
                ("fates", models.JSONField(default=dict, help_text="Messages by outcome.")),
                (
                    "missing",
                    models.BigIntegerField(
                        blank=True, help_text="0: all accounted for. Unknown before the end.", null=True
                    ),
                ),
                ("reporter", models.CharField(blank=True, max_length=300)),
                ("seen_at", models.DateTimeField()),
                (
                    "pair",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="ledgers", to="dashboard.pair"
                    ),
                ),
            ],
            options={
                "ordering": ("-began_at", "queue"),
                "indexes": [models.Index(fields=["pair", "-began_at"], name="ledger_by_pair")],
                "constraints": [
                    models.UniqueConstraint(fields=("pair", "queue", "began_at"), name="one_ledger_per_filling"),
                    models.CheckConstraint(
                        condition=models.Q(("missing__isnull", True), ("ended_at__isnull", False), _connector="OR"),
                        name="books_are_closed_at_the_end",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="SyphonPace",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("target", models.CharField(default="*", max_length=300)),
                ("rate", models.FloatField(help_text="Messages a second, at most.")),
                ("by", models.CharField(max_length=150)),
                ("reason", models.TextField(blank=True)),
                ("at", models.DateTimeField()),
                (
                    "pair",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="paces", to="dashboard.pair"
                    ),
                ),
            ],
            options={
                "ordering": ("pair", "target"),
                "constraints": [
                    models.UniqueConstraint(fields=("pair", "target"), name="paced_once"),
                    models.CheckConstraint(condition=models.Q(("rate__gt", 0)), name="pace_is_above_zero"),
                ],
            },
        ),
        migrations.CreateModel(
            name="SyphonPause",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("queue", models.CharField(default="*", max_length=300)),
                ("by", models.CharField(max_length=150)),
                ("reason", models.TextField(blank=True)),
                ("at", models.DateTimeField()),
                (
                    "pair",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="pauses", to="dashboard.pair"
                    ),
                ),
            ],
            options={
                "ordering": ("pair", "queue"),
                "constraints": [models.UniqueConstraint(fields=("pair", "queue"), name="paused_once")],
            },
        ),
        migrations.CreateModel(
            name="SyphonRun",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("queue", models.CharField(max_length=300)),
                ("holder", models.CharField(help_text="The process that had the lease.", max_length=300)),
                ("started_at", models.DateTimeField()),
                ("seen_at", models.DateTimeField(help_text="When it was last seen to hold the lease.")),
                ("ended_at", models.DateTimeField(blank=True, null=True)),
                ("ended_because", models.TextField(blank=True)),
                ("moved", models.PositiveBigIntegerField(default=0, help_text="Messages drained.")),
                ("dead_lettered", models.PositiveBigIntegerField(default=0)),
                ("otherwise", models.PositiveBigIntegerField(default=0, help_text="Expired, discarded or set aside.")),
                ("busy_s", models.FloatField(default=0, help_text="The part of its time in which messages were moving.")),
                (
                    "pair",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="syphon_runs", to="dashboard.pair"
                    ),
                ),
            ],
            options={
                "ordering": ("-started_at", "queue"),
                "indexes": [models.Index(fields=["pair", "-started_at"], name="run_by_pair")],
                "constraints": [
                    models.UniqueConstraint(
                        condition=models.Q(("ended_at__isnull", True)),
                        fields=("pair", "queue"),
                        name="one_syphon_serves_a_queue",
                    ),
                    models.UniqueConstraint(fields=("pair", "queue", "started_at"), name="one_run_begins_at_once"),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("ended_at__isnull", True), ("ended_because", "")),
                            models.Q(
                                ("ended_at__gte", models.F("started_at")),
                                ("ended_at__isnull", False),
                                models.Q(("ended_because", ""), _negated=True),
                            ),
                            _connector="OR",
                        ),
                        name="run_ends_for_a_reason",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="TopicSubscription",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("name", models.CharField(max_length=50)),
                ("dead_lettered", models.PositiveBigIntegerField()),
                ("counted_at", models.DateTimeField()),
                (
                    "topic",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="subscriptions",
                        to="dashboard.entityhealth",
                    ),
                ),
            ],
            options={
                "ordering": ("topic", "name"),
                "constraints": [
                    models.UniqueConstraint(fields=("topic", "name"), name="subscription_once_per_topic"),
                    models.CheckConstraint(
                        condition=models.Q(("name", ""), _negated=True), name="subscription_has_a_name"
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="WaitingSample",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("at", models.DateTimeField()),
                ("waiting", models.PositiveBigIntegerField()),
                (
                    "entity",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="samples", to="dashboard.entityhealth"
                    ),
                ),
            ],
            options={
                "indexes": [models.Index(fields=["at"], name="waiting_by_time")],
                "constraints": [models.UniqueConstraint(fields=("entity", "at"), name="entity_sampled_once_a_moment")],
            },
        ),
        migrations.CreateModel(
            name="ApiToken",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("name", models.CharField(help_text="The program that uses it; recorded in the audit trail.", max_length=60)),
                (
                    "prefix",
                    models.CharField(
                        help_text="Its first characters, for lookups.", max_length=16, unique=True
                    ),
                ),
                ("digest", models.CharField(help_text="SHA-256 of the whole token.", max_length=64)),
                (
                    "scope",
                    models.CharField(
                        choices=[
                            ("read", "read: everything a viewer sees"),
                            ("operate", "operate: the actions of an operator"),
                            ("administer", "administer: also discard messages and delete queues with messages"),
                        ],
                        max_length=10,
                    ),
                ),
                ("made_at", models.DateTimeField()),
                ("expires_at", models.DateTimeField()),
                ("used_at", models.DateTimeField(blank=True, help_text="To the minute.", null=True)),
                ("used_from", models.GenericIPAddressField(blank=True, null=True)),
                ("revoked_at", models.DateTimeField(blank=True, null=True)),
                ("revoked_by", models.CharField(blank=True, max_length=150)),
                (
                    "owner",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="api_tokens",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
            options={
                "verbose_name": "API token",
                "ordering": ("-made_at", "-id"),
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(("scope__in", ("read", "operate", "administer"))),
                        name="token_scope_is_known",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("revoked_at__isnull", True), ("revoked_by", "")),
                            models.Q(("revoked_at__isnull", False), models.Q(("revoked_by", ""), _negated=True)),
                            _connector="OR",
                        ),
                        name="somebody_revoked_it",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="DepthSample",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("at", models.DateTimeField()),
                ("active", models.PositiveBigIntegerField()),
                ("scheduled", models.PositiveBigIntegerField(default=0)),
                ("dead_lettered", models.PositiveBigIntegerField(default=0)),
                ("size_bytes", models.PositiveBigIntegerField(default=0)),
                (
                    "queue",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="samples", to="dashboard.backlogqueue"
                    ),
                ),
            ],
            options={
                "indexes": [models.Index(fields=["at"], name="depth_by_time")],
                "constraints": [models.UniqueConstraint(fields=("queue", "at"), name="queue_sampled_once_a_moment")],
            },
        ),
        migrations.CreateModel(
            name="DiscardedMessage",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("number", models.BigIntegerField()),
                ("message_id", models.CharField(blank=True, max_length=300)),
                ("entity", models.CharField(blank=True, max_length=300)),
                ("dead_letter_reason", models.CharField(blank=True, max_length=300)),
                ("enqueued_at", models.DateTimeField(blank=True, null=True)),
                ("size", models.PositiveBigIntegerField(default=0)),
                ("sha256", models.CharField(help_text="Of the body.", max_length=64)),
                ("at", models.DateTimeField()),
                (
                    "job",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="discarded",
                        to="dashboard.deadletterjob",
                    ),
                ),
            ],
            options={
                "ordering": ("-at", "number"),
                "constraints": [models.UniqueConstraint(fields=("job", "number"), name="discarded_once")],
            },
        ),
        migrations.CreateModel(
            name="Identity",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("issuer", models.CharField(max_length=300)),
                ("subject", models.CharField(max_length=255)),
                ("made_at", models.DateTimeField()),
                ("seen_at", models.DateTimeField(help_text="When the person last signed in through the provider.")),
                (
                    "user",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="identities",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
            options={
                "verbose_name_plural": "identities",
                "ordering": ("user", "issuer"),
                "constraints": [models.UniqueConstraint(fields=("issuer", "subject"), name="one_person_of_a_provider")],
            },
        ),
        migrations.AddField(
            model_name="notice",
            name="alerts",
            field=models.ManyToManyField(related_name="notices", through="dashboard.NoticeItem", to="dashboard.alert"),
        ),
        migrations.RunPython(create_groups, migrations.RunPython.noop),
    ]
