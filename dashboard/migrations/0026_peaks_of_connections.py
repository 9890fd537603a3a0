import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("dashboard", "0025_topic_subscriptions"),
    ]

    operations = [
        migrations.CreateModel(
            name="ConnectionDay",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("date", models.DateField()),
                ("scope", models.CharField(blank=True, max_length=200)),
                ("namespace", models.CharField(max_length=260)),
                (
                    "peaks",
                    models.JSONField(help_text="By hour (UTC), from 0 to 23; null if unknown."),
                ),
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
    ]
