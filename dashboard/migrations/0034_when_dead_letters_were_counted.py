from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("dashboard", "0033_what_dead_letter_jobs_have_done"),
    ]

    operations = [
        migrations.AddField(
            model_name="pair",
            name="dead_letters_at",
            field=models.DateTimeField(blank=True, help_text="When the dead letters of its queues were counted.", null=True),
        ),
    ]
