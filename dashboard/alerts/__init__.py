"""Alerts: conditions that need attention, and their notifications.

`conditions_now` reads conditions from the database, `rounds` compares them with the open alerts, `rules` decides who is
notified when, `notices` stores that in the same transaction, and `delivery` sends it through one of `channels`.
"""
