from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("dashboard", "0032_pings_ever"),
    ]

    operations = [
        migrations.AddField(
            model_name="deadletterjob",
            name="finished",
            field=models.JSONField(default=list, help_text="The processed ones of `numbers`."),
        ),
        migrations.AddField(
            model_name="deadletterjob",
            name="under_way",
            field=models.JSONField(default=list, help_text="Messages in progress: one that is gone is done."),
        ),
    ]
