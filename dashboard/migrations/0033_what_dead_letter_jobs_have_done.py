from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("dashboard", "0032_pings_ever"),
    ]

    operations = [
        migrations.AddField(
            model_name="deadletterjob",
            name="finished",
            field=models.JSONField(default=list, help_text="Those of `numbers` that are done."),
        ),
        migrations.AddField(
            model_name="deadletterjob",
            name="under_way",
            field=models.JSONField(default=list, help_text="What a worker has begun with: once gone, it is done."),
        ),
    ]
