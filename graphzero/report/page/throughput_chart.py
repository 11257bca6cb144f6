"""Chart 3: how fast was read, over time, against the disk's own rate."""

from __future__ import annotations

from functools import partial
from itertools import pairwise

from matplotlib.figure import Figure

from graphzero.report.page import style
from graphzero.report.page.html import because, disk_rate_unknown
from graphzero.report.page.series import Rates, Series, late, of_readings, rates
from graphzero.report.page.style import COLORS, Chart, Format, Label, Values
from graphzero.report.recording import Reading, Recording
from graphzero.units import format_bytes

__all__ = ["throughput_chart"]

TITLE = "Read throughput"
DEVICE, PROCESSES, DISK = "device, by anyone", "these processes", "the disk's own rate"


def _read_bytes(reading: Reading) -> float | None:
    """Bytes that all processes have caused to be read, those that have ended included."""
    known = [process.read_bytes for process in reading.processes]
    return sum(known) if known and None not in known else None  # type: ignore[arg-type]


def _device_bytes(reading: Reading) -> float | None:
    return reading.device_bytes


def throughput_chart(recording: Recording) -> Chart:
    """Bytes a second from the device and by the processes; a line at what the disk can give."""
    device = of_readings(recording, _device_bytes)
    processes = of_readings(recording, _read_bytes)
    if not any(rates(series, 1).values for series in (device, processes)):
        if len(recording.readings) < 2 or recording.seconds <= 0:
            missing = "unknown (a rate needs two readings)"
        else:
            missing = because(recording, "device_bytes", "read_bytes")
        return Chart("throughput", TITLE, missing=missing)
    fine = {
        label: rates(series, style.WIDE.most)
        for label, series in ((DEVICE, device), (PROCESSES, processes))
    }
    edges = max((r.edges for r in fine.values()), key=len)
    unit = style.byte_unit(max(max(r.values, default=0.0) for r in fine.values()))
    return Chart(
        "throughput",
        TITLE,
        _caption(recording, device, processes),
        partial(_draw, recording.seconds, device, processes, recording.environment.disk_rate),
        values=Values(
            [(a + b) / 2 for a, b in pairwise(edges)],
            {
                label: [round(value / unit.size, 3) for value in r.values]
                for label, r in fine.items()
                if r.edges == edges
            },
            f"{unit.name}/s",
        ),
    )


def _caption(recording: Recording, device: Series, processes: Series) -> str:
    sentences = []
    for label, series, name in (
        ("the device that holds the dataset", device, "device_bytes"),
        ("these processes", processes, "read_bytes"),
    ):
        if series.values:
            total = int(series.values[-1] - series.values[0])
            sentences.append(f"Read by {label}: {format_bytes(total)} in all.")
        else:
            sentences.append(f"Read by {label}: {because(recording, name)}.")
    sentences[0] = sentences[0].replace("Read by the device", "Read from the device")
    rate = recording.environment.disk_rate
    if rate is None:
        sentences.append(f"The disk's own rate: {disk_rate_unknown(recording)}.")
    else:
        sentences.append(
            f"Dashed: the {format_bytes(int(rate))}/s of random reads that the disk was measured "
            "to give."
        )
    return " ".join(sentences)


def _draw(
    seconds: float, device: Series, processes: Series, disk_rate: float | None, form: Format
) -> Figure:
    stretches = form.most // 2
    lines: list[tuple[str, Rates, str]] = [
        (DEVICE, rates(device, stretches), COLORS["blue"]),
        (PROCESSES, rates(processes, stretches), COLORS["orange"]),
    ]
    lines = [line for line in lines if line[1].values]
    top = style.room_above(len(lines) + (disk_rate is not None), form)
    figure = style.new_figure(form, 160 + top)
    axes = style.new_axes(figure, 38, form.label_room or 10, 34, top)
    most = max([disk_rate or 0.0, *(max(rate.values) for _, rate, _ in lines)])
    labels = []
    for label, rate, color in lines:
        name = "device" if label == DEVICE else "processes"
        axes.stairs(
            rate.values,
            rate.edges,
            color=color,
            fill=label == DEVICE,
            alpha=0.45 if label == DEVICE else 1,
            linewidth=0 if label == DEVICE else 1.2,
            baseline=0 if label == DEVICE else None,
            gid=f"series-{name}",
        )
        shown = "#99c7e0" if label == DEVICE else color  # blue at this opacity, on white
        labels.append(Label(label, shown, late(rate.values), "" if label == DEVICE else "-"))
    if disk_rate is not None:
        axes.axhline(disk_rate, color=COLORS["vermilion"], ls="--", lw=1.2, gid="series-disk-rate")
        labels.append(Label(DISK, COLORS["vermilion"], disk_rate, "--"))
    unit = style.byte_unit(most)
    style.show_time(axes, seconds)
    style.show_values(axes, most, style.Unit(f"{unit.name}/s", unit.size), "")
    style.label_areas(axes, labels, form)
    return figure
