"""How an alert reaches people: one integration per file, each turning a message into a request. None of them sends."""

from dashboard.alerts.channels import discord, email, mattermost, slack, teams, webhook
from dashboard.alerts.channels.base import Integration

INTEGRATIONS: dict[str, Integration] = {
    one.kind: one
    for one in (
        email.INTEGRATION,
        webhook.INTEGRATION,
        slack.INTEGRATION,
        teams.INTEGRATION,
        mattermost.INTEGRATION,
        discord.INTEGRATION,
    )
}
