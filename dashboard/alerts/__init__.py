"""Alerts: what somebody should know of, and how it reaches them.

`watch` reads conditions from the database, `rounds` compares them with the alerts that are open, `rules` decides who is
told when, `notices` writes that down in the same transaction, and `delivery` sends it through one of `channels`.
"""
