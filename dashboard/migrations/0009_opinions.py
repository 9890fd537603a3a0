from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('dashboard', '0008_worst_first'),
    ]

    operations = [
        migrations.AddField(
            model_name='entityhealth',
            name='failed_over_in',
            field=models.PositiveIntegerField(blank=True, help_text='Processes that do not dispute it.', null=True),
        ),
        migrations.AddField(
            model_name='entityhealth',
            name='processes',
            field=models.PositiveIntegerField(blank=True, help_text='Living processes that send; empty: all.', null=True),
        ),
    ]
