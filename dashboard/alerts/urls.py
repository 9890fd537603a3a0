"""The URLs of alerts, rules and channels."""

from django.urls import path

from dashboard.alerts import views
from dashboard.site.menu import Entry

MENU = (
    Entry("Alerts", "alerts", 60),
    Entry("Open and past", "alerts", 61, under="Alerts"),
    Entry("Deliveries", "alert-deliveries", 62, under="Alerts"),
    Entry("Rules and channels", "alert-rules", 63, pages=("alert-rule", "alert-rule-new"), under="Alerts"),
)
urlpatterns = [
    path("alerts/", views.current, name="alerts"),
    path("alerts/acknowledge/", views.acknowledge, name="alerts-acknowledge"),
    path("alerts/deliveries/", views.deliveries, name="alert-deliveries"),
    path("alerts/rules/", views.rules, name="alert-rules"),
    path("alerts/rules/new/", views.rule, name="alert-rule-new"),
    path("alerts/rules/<int:rule>/", views.rule, name="alert-rule"),
    path("alerts/rules/<int:rule>/delete/", views.delete_rule, name="alert-rule-delete"),
    path("alerts/channels/<slug:channel>/<slug:verb>/", views.channel, name="alert-channel"),
    path("alerts/<int:alert>/acknowledge/", views.acknowledge, name="alert-acknowledge"),
]
