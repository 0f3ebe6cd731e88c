"""The style sheet of the page. A constant."""

from typing import Final

_LIGHT: Final = """
  --paper: #ffffff; --panel: #f2f4f7; --ink: #1b1f24; --soft: #59626d; --faint: #c3cad3;
  --fault: #b3261e; --state: #1b1f24; --asked: #b0568f; --answered: #7a828c; --synced: #59626d;
  --handler: #7b4b2a;
  --completed: #0072b2; --failed: #8a6d00; --expired: #d55e00; --cancelled: #00805d;
"""
_DARK: Final = """
  --paper: #14171b; --panel: #1e2329; --ink: #e8ebef; --soft: #a3adb8; --faint: #4a535e;
  --fault: #ff8a80; --state: #e8ebef; --asked: #de8fc0; --answered: #9aa4af; --synced: #a3adb8;
  --handler: #c79a7a;
  --completed: #56b4e9; --failed: #e0c341; --expired: #f0883e; --cancelled: #2fbf94;
"""
_KINDS: Final = (
    *("fault", "state", "asked", "answered", "synced", "handler"),
    *("completed", "failed", "expired", "cancelled"),
)
_ELEMENTS: Final = """
* { box-sizing: border-box; }
body {
  margin: 0; background: var(--paper); color: var(--ink);
  font: 16px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", sans-serif;
}
main { max-width: 1160px; margin: 0 auto; padding: 1.5rem 1rem 4rem; }
h1 { font-size: 1.5rem; line-height: 1.25; margin: 0 0 .5rem; overflow-wrap: anywhere; }
h2 { font-size: 1.2rem; margin: 2rem 0 .5rem; }
p { margin: .5rem 0; overflow-wrap: anywhere; }
.broken { border-left: 4px solid var(--fault); padding: .25rem .75rem; background: var(--panel); }
.soft { color: var(--soft); }
ul { list-style: none; display: flex; flex-wrap: wrap; gap: .1rem 1.25rem; padding: 0;
  margin: .5rem 0; font-size: .875rem; }
.swatch { display: inline-block; width: .7rem; height: .7rem; margin-right: .4rem;
  border-radius: 50%; }
.swatch.fault, .swatch.state { border-radius: 0; }
.swatch.fault { transform: rotate(45deg); }
pre { white-space: pre-wrap; overflow-wrap: anywhere; font-size: .8rem; margin: .5rem 0; }
summary { cursor: pointer; padding: .25rem 0; }
svg { display: block; width: 100%; height: auto; }
svg.narrow { display: none; }
svg text { font-family: inherit; font-size: 12px; fill: var(--ink); }
svg .end { text-anchor: end; }
svg .middle { text-anchor: middle; }
svg text.soft { fill: var(--soft); }
svg .lane { stroke: var(--faint); stroke-width: 1; }
svg .grid { stroke: var(--faint); stroke-width: .6; opacity: .6; }
svg .violation line { stroke: var(--fault); stroke-width: 2; }
svg .violation text { fill: var(--fault); font-size: 16px; font-weight: 700; }
"""
_COLOURS: Final = "\n".join(
    f".mark.{kind} {{ fill: var(--{kind}); }} .swatch.{kind} {{ background: var(--{kind}); }}"
    for kind in _KINDS
)

STYLE: Final = f"""
:root {{ color-scheme: light dark; {_LIGHT} }}
@media screen and (prefers-color-scheme: dark) {{ :root {{ {_DARK} }} }}
{_ELEMENTS}
{_COLOURS}
@media screen and (max-width: 600px) {{
  svg.wide {{ display: none; }}
  svg.narrow {{ display: block; }}
}}
@media print {{
  main {{ max-width: none; padding: 0; }}
  body {{ font-size: 12px; print-color-adjust: exact; }}
  svg {{ break-inside: avoid; }}
}}
"""
