"""Charts as SVG, written by hand: lines over an axis, in one or more panels below each other.

    panel = Panel("searches", Axis("users", log=True), Axis("us", log=True),
                  [Series("p50", [(1, 30.0), (1000, 45.0)]), Series("p99", [...], dashed=True)])
    write_chart("search.svg", "Search latency", "bench.py --only scaling", [panel])

Readable on light and dark pages: the file brings its own background, and follows the reader's scheme.
"""

import collections
import math
from xml.sax.saxutils import escape, quoteattr

WIDTH = 760
LEFT, RIGHT = 78, 34
TITLE_HEIGHT, NAME_HEIGHT, KEY_HEIGHT, PANEL_BOTTOM, FOOT_HEIGHT = 40, 34, 22, 52, 30
FONT_WIDTH = 0.58  # of a character of the sans-serif face, in its size
COLOURS = 5
TICKS_WANTED = 5
TICKS_MOST = 9
POINTS_MARKED = 20

# Rules once for light pages, once for dark ones.
COLOURS_OF = {
    "light": {"page": "#ffffff", "text": "#1f2328", "faint": "#59636e", "grid": "#d9dee4",
              "lines": ("#0969da", "#bc4c00", "#1a7f37", "#8250df", "#6e7781")},
    "dark": {"page": "#0d1117", "text": "#e6edf3", "faint": "#9198a1", "grid": "#2f3640",
             "lines": ("#58a6ff", "#f0883e", "#3fb950", "#bc8cff", "#9198a1")},
}

Axis = collections.namedtuple("Axis", "label log zero", defaults=(False, True))
# `colour`: which of the lines' colours; two series of one thing share it.
Series = collections.namedtuple("Series", "name points dashed colour", defaults=(False, None))
Panel = collections.namedtuple("Panel", "title x y series height", defaults=(230,))


# ---- scales ----

def number(value):
    """A tick's label: as many digits as it needs."""
    if value == 0:
        return "0"
    if abs(value) >= 1:
        text = f"{value:,.2f}" if abs(value) < 100 else f"{value:,.0f}"
        return text.rstrip("0").rstrip(".") if "." in text else text
    return f"{value:.{2 - math.floor(math.log10(abs(value)))}f}".rstrip("0")


def nice_step(span):
    """1, 2 or 5 times a power of ten, so that about TICKS_WANTED steps make the span."""
    raw = span / TICKS_WANTED
    power = 10.0 ** math.floor(math.log10(raw))
    return next(factor * power for factor in (1, 2, 5, 10) if factor * power >= raw * 0.999)


def linear_scale(values, from_zero):
    """Limits and ticks around the values."""
    low, high = min(values), max(values)
    if from_zero:
        low, high = min(low, 0), max(high, 0)
    if high == low:
        high = low + (abs(low) or 1)
    step = nice_step(high - low)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return (first * step, last * step), [i * step for i in range(first, last + 1)]


def log_scale(values):
    """The same between the next 1, 2 or 5 times a power of ten; all of these where they are few."""
    if min(values) <= 0:
        raise ValueError("a logarithmic axis has no place for 0")
    steps = [factor * 10.0 ** power
             for power in range(math.floor(math.log10(min(values))) - 1,
                                math.ceil(math.log10(max(values))) + 2)
             for factor in (1, 2, 5)]
    low = max(step for step in steps if step <= min(values) * 1.0001)
    high = min(step for step in steps if step >= max(values) * 0.9999)
    if low == high:
        high = steps[steps.index(low) + 1]
    inside = [step for step in steps if low <= step <= high]
    decades = [step for step in inside if round(math.log10(step), 6) % 1 == 0]
    return (low, high), inside if len(inside) <= TICKS_MOST else decades


def sizes_scale(sizes):
    """For a few sizes that were measured: these alone."""
    return (min(sizes), max(sizes)), sorted(sizes)


class Scale:
    """From values to places on the page."""

    def __init__(self, axis, limits_and_ticks, start, end):
        self.axis, self.start, self.end = axis, start, end
        (self.low, self.high), self.ticks = limits_and_ticks

    def place(self, value):
        low, high = self.low, self.high
        if self.axis.log:
            value, low, high = math.log(value), math.log(low), math.log(high)
        return self.start + (value - low) / (high - low) * (self.end - self.start)


# ---- drawing ----

def style_rules(colours):
    lines = [f".page{{fill:{colours['page']}}} text{{fill:{colours['text']}}}"
             f" .faint{{fill:{colours['faint']}}} .grid{{stroke:{colours['grid']}}}"
             f" .axis{{stroke:{colours['faint']}}}"]
    lines += [f".c{i}{{stroke:{colour}}} .f{i}{{fill:{colour}}}"
              for i, colour in enumerate(colours["lines"])]
    return "\n".join(lines)


def style():
    return ("<style>\n"
            "text{font:13px system-ui,'DejaVu Sans',sans-serif} .title{font-size:17px;font-weight:600}"
            " .name{font-size:14px;font-weight:600} .foot{font:11px ui-monospace,'DejaVu Sans Mono',"
            "monospace}\n"
            ".grid{stroke-width:1} .axis{stroke-width:1} .line{fill:none;stroke-width:2}\n"
            + style_rules(COLOURS_OF["light"])
            + "\n@media (prefers-color-scheme:dark){\n" + style_rules(COLOURS_OF["dark"])
            + "\n}\n</style>")


def text(x, y, words, kind="", anchor="start", turn=None):
    turned = f' transform="rotate({turn} {x:.1f} {y:.1f})"' if turn else ""
    return (f'<text x="{x:.1f}" y="{y:.1f}" class="{kind}" text-anchor="{anchor}"{turned}>'
            f"{escape(words)}</text>")


def width_of(words, size=13):
    return len(words) * size * FONT_WIDTH


def segment(x1, y1, x2, y2, kind):
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" class="{kind}"/>'


def without_overlaps(scale, gap):
    """The ticks whose labels have room beside each other, by their widths."""
    kept, edge = [], -math.inf
    for tick in scale.ticks:
        half = width_of(number(tick)) / 2
        if scale.place(tick) - half >= edge:
            kept.append(tick)
            edge = scale.place(tick) + half + gap
    return kept


def draw_axes(x, y, panel, top, bottom):
    parts = []
    for tick in y.ticks:
        at = y.place(tick)
        parts.append(segment(LEFT, at, WIDTH - RIGHT, at, "grid"))
        parts.append(text(LEFT - 8, at + 4.5, number(tick), "faint", "end"))
    for tick in without_overlaps(x, 10):
        at = x.place(tick)
        parts.append(segment(at, bottom, at, bottom + 5, "axis"))
        parts.append(text(at, bottom + 20, number(tick), "faint", "middle"))
    parts.append(segment(LEFT, bottom, WIDTH - RIGHT, bottom, "axis"))
    parts.append(text((LEFT + WIDTH - RIGHT) / 2, bottom + 40, panel.x.label, "", "middle"))
    parts.append(text(18, (top + bottom) / 2, panel.y.label, "", "middle", turn=-90))
    return parts


def colour_of(panel, index):
    chosen = panel.series[index].colour
    return (index if chosen is None else chosen) % COLOURS


def key_places(panel):
    """Where the names of the series stand, (x, row) each, in as many rows as they need. None for one."""
    places, at, row = [], LEFT, 0
    for series in panel.series if len(panel.series) > 1 else ():
        width = 32 + width_of(series.name)
        if at + width > WIDTH - RIGHT and at > LEFT:
            at, row = LEFT, row + 1
        places.append((at, row))
        at += width + 22
    return places


def key_height(panel):
    places = key_places(panel)
    return (places[-1][1] + 1) * KEY_HEIGHT if places else 0


def draw_key(panel, top):
    """What the lines mean, above the plot."""
    parts = []
    for index, (at, row) in enumerate(key_places(panel)):
        at_y = top + row * KEY_HEIGHT
        dash = ' stroke-dasharray="6 4"' if panel.series[index].dashed else ""
        parts.append(f'<path d="M{at:.1f} {at_y - 4.5:.1f}h26" '
                     f'class="line c{colour_of(panel, index)}"{dash}/>')
        parts.append(text(at + 32, at_y, panel.series[index].name))
    return parts


def draw_series(x, y, panel):
    parts = []
    for index, series in enumerate(panel.series):
        places = [(x.place(a), y.place(b)) for a, b in sorted(series.points)]
        path = "M" + "L".join(f"{a:.1f} {b:.1f}" for a, b in places)
        dash = ' stroke-dasharray="6 4"' if series.dashed else ""
        parts.append(f'<path d="{path}" class="line c{colour_of(panel, index)}"{dash}/>')
        if len(places) <= POINTS_MARKED:
            parts += [f'<circle cx="{a:.1f}" cy="{b:.1f}" r="3.5" class="f{colour_of(panel, index)}"/>'
                      for a, b in places]
    return parts


def panel_height(panel):
    return NAME_HEIGHT + key_height(panel) + panel.height + PANEL_BOTTOM


def scale_of(axis, values, start, end):
    """Across, a few sizes are the ticks themselves; all else has round ones."""
    sizes = set(values)
    if axis.log and start < end and 1 < len(sizes) <= TICKS_MOST:
        return Scale(axis, sizes_scale(sizes), start, end)
    return Scale(axis, log_scale(values) if axis.log else linear_scale(values, axis.zero), start, end)


def draw_panel(panel, offset):
    top = offset + NAME_HEIGHT + key_height(panel)
    bottom = top + panel.height
    points = [point for series in panel.series for point in series.points]
    if not points:
        raise ValueError(f"nothing to draw in {panel.title!r}")
    x = scale_of(panel.x, [point[0] for point in points], LEFT, WIDTH - RIGHT)
    y = scale_of(panel.y, [point[1] for point in points], bottom, top)
    return [text(LEFT, offset + 18, panel.title, "name"), *draw_key(panel, offset + 42),
            *draw_axes(x, y, panel, top, bottom), *draw_series(x, y, panel)]


def chart(title, made_by, panels):
    """The text of an SVG with these panels below each other; `made_by` is shown at the foot."""
    height = TITLE_HEIGHT + sum(map(panel_height, panels)) + FOOT_HEIGHT
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" '
             f'width="{WIDTH}" height="{height}" role="img" aria-label={quoteattr(title)}>',
             style(), f'<rect class="page" width="{WIDTH}" height="{height}"/>',
             text(LEFT, 30, title, "title")]
    offset = TITLE_HEIGHT
    for panel in panels:
        parts += draw_panel(panel, offset)
        offset += panel_height(panel)
    parts += [text(LEFT, height - 12, made_by, "faint foot"), "</svg>"]
    return "\n".join(parts) + "\n"


def write_chart(path, title, made_by, panels):
    with open(path, "w", encoding="utf-8") as file:
        file.write(chart(title, made_by, panels))
