"""States that cannot be are refused from now on; the few that may be there are put right first."""

from django.db import migrations, models
from django.db.models import Q


def put_right(apps, schema_editor):
    def rows(name):
        return apps.get_model("dashboard", name).objects

    entities = rows("EntityHealth")
    entities.filter(held_by__isnull=True, expires__isnull=False).update(expires=None)
    entities.filter(Q(last_ping_at__isnull=True) | Q(last_ping_accepted__isnull=True)).update(
        last_ping_at=None, last_ping_accepted=None
    )
    entities.exclude(waiting__gt=0).filter(oldest_waiting_at__isnull=False).update(oldest_waiting_at=None)
    rows("BacklogQueue").filter(is_gone=True).update(transfer=0, transfer_dead_lettered=0, deliverable_since=None)
    rows("QueueDeletion").filter(stage="returning").exclude(returns_as__in=("taken_back", "kept")).update(
        returns_as="kept"
    )
    rows("Alert").filter(acknowledged_at__isnull=True).update(acknowledged_by="")
    rows("Alert").filter(acknowledged_at__isnull=False, acknowledged_by="").update(acknowledged_by="somebody")
    rows("ApiToken").filter(revoked_at__isnull=True).update(revoked_by="")
    rows("ApiToken").filter(revoked_at__isnull=False, revoked_by="").update(revoked_by="somebody")


class Migration(migrations.Migration):
    dependencies = [
        ("dashboard", "0027_drill_kind"),
    ]

    operations = [
        migrations.RunPython(put_right, migrations.RunPython.noop),
        migrations.AddConstraint(
            model_name="alert",
            constraint=models.CheckConstraint(
                condition=Q(acknowledged_at__isnull=True, acknowledged_by="")
                | (Q(acknowledged_at__isnull=False) & ~Q(acknowledged_by="")),
                name="somebody_acknowledged_it",
            ),
        ),
        migrations.AddConstraint(
            model_name="apitoken",
            constraint=models.CheckConstraint(
                condition=Q(revoked_at__isnull=True, revoked_by="")
                | (Q(revoked_at__isnull=False) & ~Q(revoked_by="")),
                name="somebody_revoked_it",
            ),
        ),
        migrations.RemoveConstraint(model_name="backlogqueue", name="what_is_gone_holds_nothing"),
        migrations.AddConstraint(
            model_name="backlogqueue",
            constraint=models.CheckConstraint(
                condition=Q(is_gone=False)
                | Q(
                    active=0,
                    scheduled=0,
                    dead_lettered=0,
                    transfer=0,
                    transfer_dead_lettered=0,
                    size_bytes=0,
                    deliverable_since__isnull=True,
                ),
                name="what_is_gone_holds_nothing",
            ),
        ),
        migrations.AddConstraint(
            model_name="depthpeak",
            constraint=models.CheckConstraint(condition=Q(step_s__gt=0), name="a_step_has_a_length"),
        ),
        migrations.AddConstraint(
            model_name="entityhealth",
            constraint=models.CheckConstraint(
                condition=Q(expires__isnull=True) | Q(held_by__isnull=False), name="only_what_is_held_expires"
            ),
        ),
        migrations.AddConstraint(
            model_name="entityhealth",
            constraint=models.CheckConstraint(
                condition=Q(last_ping_at__isnull=True, last_ping_accepted__isnull=True)
                | Q(last_ping_at__isnull=False, last_ping_accepted__isnull=False),
                name="a_ping_is_accepted_or_not",
            ),
        ),
        migrations.AddConstraint(
            model_name="entityhealth",
            constraint=models.CheckConstraint(
                condition=Q(oldest_waiting_at__isnull=True) | Q(waiting__gt=0), name="the_oldest_is_one_that_waits"
            ),
        ),
        migrations.AddConstraint(
            model_name="queuedeletion",
            constraint=models.CheckConstraint(
                condition=~Q(stage="returning") | Q(returns_as__in=("taken_back", "kept")),
                name="what_returns_knows_as_what",
            ),
        ),
    ]
