from django.db import migrations, models
from django.db.models import Min


def from_invoices(apps, schema_editor) -> None:
    """A month that has a closed invoice was closed as a whole."""
    closed = apps.get_model("dashboard", "Invoice").objects.filter(closed_at__isnull=False).order_by()
    months = closed.values_list("month").annotate(closed_at=Min("closed_at"))
    model = apps.get_model("dashboard", "ClosedMonth")
    model.objects.bulk_create(model(month=month, closed_at=closed_at) for month, closed_at in months)


class Migration(migrations.Migration):
    dependencies = [
        ("dashboard", "0034_when_dead_letters_were_counted"),
    ]

    operations = [
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
        migrations.RunPython(from_invoices, migrations.RunPython.noop),
    ]
