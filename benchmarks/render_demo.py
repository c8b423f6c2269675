"""Make the picture at the top of README.md and its result from the run folder of a real design.

trainless design breastmnist --positive malignant --evaluations 30 --members 4 --epochs 25 --out runs/breast
python -m benchmarks.render_demo runs/breast && python -m benchmarks.render_readme

It needs Debian's Chromium. The picture is the top of ``report.html`` beside the search's leaderboard.
"""

from __future__ import annotations

import csv
import html
import io
import shutil
import sys
from pathlib import Path

from PIL import Image
from playwright.sync_api import sync_playwright

ROOT = Path(__file__).resolve().parents[1]
PICTURE, RESULT = ROOT / "docs" / "figures" / "demo.png", ROOT / "results" / "demo"
SIZE, ROWS = (1000, 960), 24
PAGE = """<!doctype html><meta charset="utf-8"><style>
body {{ font: 15px system-ui, sans-serif; margin: 28px; color: #1c2430; }}
h1 {{ font-size: 22px; margin: 0 0 4px; }} p {{ margin: 0 0 16px; color: #4b5563; }}
table {{ border-collapse: collapse; width: 100%; }}
td, th {{ padding: 7px 10px; border-bottom: 1px solid #e2e6eb; text-align: right; white-space: nowrap; }}
td:nth-child(2), th:nth-child(2) {{ text-align: left; white-space: normal; }}
</style><h1>Leaderboard of the search</h1><p>{said}</p><table><tr>{head}</tr>{rows}</table>"""


def cell(text: str) -> str:
    """A number with commas between its thousands, or words."""
    try:
        return f"{float(text):,.0f}"
    except ValueError:
        return html.escape(text)


def leaderboard(run: Path) -> str:
    """The best rows of the leaderboard of a design's first search, as a page."""
    file = next(iter(sorted((run / "searches").glob("*/leaderboard.csv"))))
    with file.open(newline="", encoding="utf-8") as opened:
        rows = list(csv.DictReader(opened))
    names = [name for name in ("rank", "arch", "params", "flops") if name in rows[0]]
    head = "".join(f"<th>{html.escape(name)}</th>" for name in names)
    body = "".join("<tr>" + "".join(f"<td>{cell(row[name])}</td>" for name in names) + "</tr>" for row in rows[:ROWS])
    said = f"The best {min(ROWS, len(rows))} of {len(rows)} networks that were scored; none of them was trained for it."
    return PAGE.format(said=said, head=head, rows=body)


def picture(run: Path) -> Image.Image:
    """The report and the leaderboard side by side."""
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        tab = browser.new_page(viewport={"width": SIZE[0], "height": SIZE[1]})
        shots = []
        for show in (
            lambda: tab.goto((run / "report.html").resolve().as_uri()),
            lambda: tab.set_content(leaderboard(run)),
        ):
            show()
            shots.append(Image.open(io.BytesIO(tab.screenshot())).convert("RGB"))
        browser.close()
    both = Image.new("RGB", (2 * SIZE[0] + 20, SIZE[1]), "#c5ccd6")
    for place, shot in enumerate(shots):
        both.paste(shot, (place * (SIZE[0] + 20), 0))
    return both.resize((both.width * 7 // 10, both.height * 7 // 10), Image.Resampling.LANCZOS)


def main(run: Path) -> None:
    """Write the picture and keep the summary."""
    picture(run).quantize(128).save(PICTURE, optimize=True)
    RESULT.mkdir(exist_ok=True)
    shutil.copy(run / "summary.json", RESULT / "summary.json")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
