"""Template tags of charts: their drawings."""

from django import template
from django.utils.safestring import SafeString

from dashboard.site import plots
from dashboard.site.charts import Chart

register = template.Library()


@register.filter
def drawing(chart: Chart) -> SafeString:
    """The plot."""
    return plots.drawing(chart)


@register.filter
def value_axis(chart: Chart) -> SafeString:
    """The labels of the values, for the left of the plot."""
    return plots.value_axis(chart.top, chart.unit)


@register.simple_tag
def plot_sizes() -> SafeString:
    """The place of the plot within the drawing, in pixels, for the script that shows values."""
    return SafeString(f'data-top="{plots.TOP}" data-height="{plots.PLOT}"')
