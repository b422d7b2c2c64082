"""The style sheet of reports: light and dark, wide and narrow, screen and paper."""

from __future__ import annotations

import base64
import hashlib

LIGHT = {
    "paper": "#ffffff", "page": "#f5f6f8", "ink": "#1b1f27", "soft": "#59616e", "line": "#d9dde4", "bad": "#b42318",
    "good": "#1a7f37", "c0": "#1f5fbf", "c1": "#c2540a", "c2": "#1a7f37", "c3": "#7a3fc4", "c4": "#b3203a",
    "c5": "#0b7a7f", "c6": "#80600b", "c7": "#b0338a",
}  # fmt: skip
DARK = {
    "paper": "#1a1e26", "page": "#12151b", "ink": "#e7eaf0", "soft": "#a0a9b8", "line": "#343b48", "bad": "#ff8a80",
    "good": "#6fd08c", "c0": "#7fb0ff", "c1": "#ffa25c", "c2": "#6fd08c", "c3": "#c3a0ff", "c4": "#ff8aa0",
    "c5": "#5fd3d8", "c6": "#e0c060", "c7": "#f495d2",
}  # fmt: skip

RULES = """
*{box-sizing:border-box}
html{background:var(--page);color:var(--ink);font:15px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,"Helvetica Neue",
Arial,sans-serif;-webkit-text-size-adjust:100%}
body{margin:0}
main{max-width:1120px;margin:0 auto;padding:28px 20px 48px}
header h1{font-size:1.7rem;line-height:1.2;margin:0 0 4px;overflow-wrap:anywhere}
header p{margin:0;color:var(--soft);overflow-wrap:anywhere}
h2{font-size:1.15rem;margin:34px 0 12px}
h3{font-size:1rem;margin:0 0 2px}
.cards{display:grid;grid-template-columns:repeat(auto-fit,minmax(164px,1fr));gap:12px;margin:20px 0 0;padding:0;
list-style:none}
.cards li,figure,.box{background:var(--paper);border:1px solid var(--line);border-radius:8px}
.cards li{padding:11px 12px}
.cards b{display:block;font-size:1.45rem;line-height:1.25;font-weight:600;font-variant-numeric:tabular-nums}
.cards span{display:block;color:var(--soft);font-size:.8rem}
.plots{display:grid;grid-template-columns:repeat(2,minmax(0,1fr));gap:16px}
figure{margin:0;padding:14px 16px 10px;min-width:0;display:flex;flex-direction:column}
figure>.plot{margin-top:auto;padding-top:8px}
.words{color:var(--soft);font-size:.87rem;overflow-wrap:anywhere}
.words p{margin:0}
.words ul{list-style:none;margin:4px 0 0;padding:0}
.words li{padding-left:30px}
.words b{color:var(--ink)}
.box{padding:2px 16px;overflow-x:auto;min-width:0}
.box+.box{margin-top:12px}
.plots>.box+.box{margin-top:0}
.plots>.box table{font-size:.85rem}
.plots>.box th,.plots>.box td{padding:5px}
.plots>.box th:first-child{padding-left:0}
.note{color:var(--soft)}
.plot{display:block;width:100%;height:auto;overflow:visible}
.plot text{font-size:12px;fill:var(--soft)}
.plot .end{text-anchor:end}
.plot .mid{text-anchor:middle}
.plot .mark,.plot .note{fill:var(--ink);font-weight:600;paint-order:stroke;stroke:var(--paper);stroke-width:4px;
stroke-linejoin:round}
.grid,.axis,.guide,.drop{fill:none;stroke:var(--line)}
.axis{stroke:var(--soft)}
.guide{stroke:var(--soft);stroke-dasharray:5 4}
.drop{stroke:var(--soft);stroke-dasharray:2 3}
.line{fill:none;stroke:var(--c);stroke-width:2;stroke-linejoin:round;stroke-linecap:round}
.area{fill:var(--c);fill-opacity:.16}
.bar{fill:var(--c);fill-opacity:.75}
.dot{fill:var(--c);stroke:var(--paper);stroke-width:1.5}
.cross{fill:none;stroke:var(--bad);stroke-width:2}
.line.d1{stroke-dasharray:7 4}
.line.d2{stroke-dasharray:2 4}
.hit>rect{fill:transparent}
.tip{visibility:hidden;pointer-events:none}
.hit:hover .tip{visibility:visible}
.tip path{stroke:var(--soft)}
.tip rect{fill:var(--paper);stroke:var(--line)}
.plot .tip text{fill:var(--ink)}
.swatch{width:24px;height:8px;margin:0 6px 0 -30px;vertical-align:middle}
table{border-collapse:collapse;font-size:.9rem;font-variant-numeric:tabular-nums;width:100%}
caption{text-align:left;color:var(--soft);padding:8px 0 4px}
th,td{padding:5px 10px;border-bottom:1px solid var(--line);text-align:right;vertical-align:top}
tr:last-child>*{border-bottom:0}
th{font-weight:600}
th:first-child,td:first-child,.settings td,.settings th{text-align:left}
th:first-child,td:first-child{padding-left:0}
td{white-space:nowrap}
.settings td{white-space:normal;overflow-wrap:anywhere}
.settings tbody th{width:30%;color:var(--soft);font-weight:400}
thead th{color:var(--soft);font-weight:600}
.bad{color:var(--bad);font-weight:600}
.better{color:var(--good);font-weight:600}
details{margin-top:8px;font-size:.87rem}
summary{cursor:pointer;color:var(--soft);padding:2px 0}
details>div{max-height:320px;overflow:auto}
:focus-visible{outline:2px solid var(--c0);outline-offset:2px}
footer{margin-top:32px;color:var(--soft);font-size:.87rem}
@media (max-width:760px){.plots{grid-template-columns:minmax(0,1fr)}main{padding:20px 14px 32px}}
@media (max-width:480px){.plot text{font-size:15px}th,td{padding:5px 7px}.cards{grid-template-columns:1fr 1fr}}
@media print{html{font-size:11px;background:#fff}main{max-width:none;padding:0}figure,.cards li,tr,.box{break-inside:
avoid}h2{break-after:avoid}.hit{display:none}details:not([open]){display:none}
.plots{grid-template-columns:repeat(2,minmax(0,1fr))}*{-webkit-print-color-adjust:exact;print-color-adjust:exact}}
"""


def style_sheet() -> str:
    colours = "".join(f".c{number}{{--c:var(--c{number})}}\n" for number in range(8))
    light, dark = (";".join(f"--{name}:{colour}" for name, colour in theme.items()) for theme in (LIGHT, DARK))
    themes = (
        f":root{{color-scheme:light dark;{light}}}\n@media screen and (prefers-color-scheme:dark){{:root{{{dark}}}}}\n"
    )
    return themes + colours + RULES


def style_hash(style: str) -> str:
    """As a content security policy names a style sheet."""
    return "sha256-" + base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
