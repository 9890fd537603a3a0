"""Template tags of the control plane."""

from django import template

register = template.Library()
