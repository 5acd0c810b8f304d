"""The runs of the report: figures, findings, files, settings, machines and what they cost."""

import io
import json
from pathlib import Path
from typing import Any

from PIL import Image

from rsgda import report
from rsgda.report import Html, Section
from rsgda.reproduce.captions import CAPTIONS, Caption
from rsgda.reproduce.check import Stored
from rsgda.reproduce.page_claims import listed
from rsgda.reproduce.page_words import pretty
from rsgda.reproduce.registry import TARGETS

WIDE, COLOURS = 1_400, 192  # pixels and colours of a picture in the report
KINDS = (".csv", ".pdf", ".png", ".json")


def run(out: Path, name: str, stored: Stored) -> Section:
    """Return a target: its pictures, what was found, and the files beside the report."""
    caption, scale = CAPTIONS.get(name), stored.manifest["scale"]
    parts: list[str] = []
    if caption is not None:
        parts += _pictures(out, name, caption)
    if stored.findings:
        found = [(name, finding) for finding in stored.findings]
        some = listed(found, {name: scale})
        parts.append(report.details(f"What was found: {len(found)}", [some]))
    files = [path.name for path in sorted((out / name).iterdir()) if path.suffix in KINDS]
    links = " ".join(str(report.link(f"{name}/{file}", file)) for file in files)
    parts.append(Html(f'<p class="small">Beside this page: {links}</p>\n'))
    about = TARGETS[name].about
    heading = Html(f'<span id="target-{name}">{pretty(about[0].upper() + about[1:])}</span>')
    return Section(heading, parts)


def _pictures(out: Path, name: str, caption: Caption) -> list[str]:
    parts: list[str] = []
    if caption.paper:
        parts.append(report.paragraph(pretty(f"In the paper: {caption.paper}")))
    pictures = [(f"{name}.png", caption.look), *caption.more]
    for file, says in pictures:
        if (image := small(out / name / file)) is not None:
            shown = f"{TARGETS[name].about}: {file}"
            parts.append(report.figure(image, shows=shown, says=pretty(says)))
        else:
            parts.append(report.notice(f"{name}/{file} is not there, or is no picture."))
    return parts


def small(path: Path) -> bytes | None:
    """Return a picture in so many pixels and colours as a page needs, if there is one."""
    try:
        with Image.open(path) as picture:
            rgb = picture.convert("RGB")
    except OSError:
        return None
    if rgb.width > WIDE:
        high = round(rgb.height * WIDE / rgb.width)
        rgb = rgb.resize((WIDE, high), Image.Resampling.LANCZOS)
    file = io.BytesIO()
    # The few colours of lines must stay what they are, whatever the shades of bands are.
    few = rgb.quantize(COLOURS, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)
    few.save(file, "png", optimize=True)
    return file.getvalue()


def costs(stored: dict[str, Stored]) -> Section:
    """Return when and on what each target was run, for how long."""
    rows = []
    for name, each in stored.items():
        of = each.manifest
        cells = of["settings"].get("seconds_of_cells")
        rows.append(
            [
                report.link(f"#target-{name}", name),
                of["scale"],
                str(of.get("started", ""))[:10],
                _seconds(cells) if cells is not None else _seconds(of.get("seconds")),
            ]
        )
    table = report.table(("target", "scale", "run on", "time"), rows, right=3)
    total = sum(_cost(each.manifest) for each in stored.values())
    foot = (
        f"{_seconds(total)} together. The time is that of the runs themselves, without what is "
        "drawn; some were done beside other work."
    )
    machines = report.settings({name: _machine(each.manifest) for name, each in stored.items()})
    return Section("Cost and machines", [table, foot, report.details("Machines", [machines])])


def settings(stored: dict[str, Stored]) -> Section:
    """Return how much was run of each target, and all of its settings."""
    parts: list[str] = []
    for name, each in stored.items():
        of = each.manifest
        values = {"command": of.get("command", ""), **_flat(of["settings"])}
        versions = of.get("versions", {})
        values["versions"] = ", ".join(f"{key} {value}" for key, value in versions.items())
        values["python"] = of.get("python", "")
        parts.append(report.details(f"{name}, {of['scale']}", [report.settings(values)]))
    return Section("Settings and versions", parts)


def _flat(values: dict[str, Any]) -> dict[str, str]:
    return {
        name: value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        for name, value in values.items()
    }


def _cost(manifest: dict[str, Any]) -> float:
    cells = manifest["settings"].get("seconds_of_cells")
    return float(cells if cells is not None else manifest.get("seconds", 0.0))


def _seconds(value: float | None) -> str:
    if value is None:
        return ""
    if value < 120:
        return f"{value:.0f} s"
    return f"{value / 60:.0f} min" if value < 7_200 else f"{value / 3_600:.1f} h"


def _machine(manifest: dict[str, Any]) -> str:
    hardware = manifest.get("hardware", "hardware not recorded")
    return f"{hardware}; {manifest.get('platform', '')}"
