from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("dashboard", "0026_peaks_of_connections"),
    ]

    operations = [
        migrations.AddField(
            model_name="drill",
            name="kind",
            field=models.CharField(
                choices=[("queue", "Queue"), ("session_queue", "queue with sessions"), ("topic", "Topic")],
                default="queue",
                help_text="The type of the canary.",
                max_length=13,
            ),
        ),
    ]
