"""The style sheet of a report's page. A constant."""

from typing import Final

# The variables are the colours of `svg`. The colours of the series are distinguishable with colour
# blindness, too (after Okabe and Ito), and have contrast against both backgrounds.
STYLE: Final = """
:root {
  color-scheme: light dark;
  --paper: #ffffff; --panel: #f5f6f8; --ink: #1b1f24; --soft: #59626d; --faint: #b4bcc6;
  --completed: #0072b2; --expired: #d55e00; --cancelled: #7a828c;
  --series-1: #1b1f24; --series-2: #0072b2; --series-3: #d55e00;
  --series-4: #00805d; --series-5: #b0568f; --series-6: #8a6d00;
}
@media (prefers-color-scheme: dark) {
  :root {
    --paper: #14171b; --panel: #1e2329; --ink: #e8ebef; --soft: #a3adb8; --faint: #56606c;
    --completed: #56b4e9; --expired: #f0883e; --cancelled: #9aa4af;
    --series-1: #e8ebef; --series-2: #56b4e9; --series-3: #f0883e;
    --series-4: #2fbf94; --series-5: #de8fc0; --series-6: #e0c341;
  }
}
* { box-sizing: border-box; }
body {
  margin: 0; background: var(--paper); color: var(--ink);
  font: 16px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", sans-serif;
}
main { max-width: 860px; margin: 0 auto; padding: 1.5rem 1rem 4rem; }
h1 { font-size: 1.5rem; line-height: 1.25; margin: 0 0 .25rem; overflow-wrap: anywhere; }
h2 { font-size: 1.2rem; margin: 2.75rem 0 .75rem; padding-top: .75rem;
  border-top: 1px solid var(--faint); }
p { margin: .5rem 0 1rem; max-width: 44rem; }
.times, caption, figcaption { color: var(--soft); }
.note { border-left: 4px solid var(--expired); padding: .25rem .75rem; background: var(--panel);
  overflow-wrap: anywhere; }
.cards { display: grid; grid-template-columns: repeat(auto-fit, minmax(9rem, 1fr)); gap: .75rem;
  margin: 1rem 0; }
.cards div { background: var(--panel); border-radius: .5rem; padding: .6rem .9rem; display: flex;
  flex-direction: column-reverse; }
.cards dt { color: var(--soft); font-size: .875rem; }
.cards dd { margin: 0; font-size: 1.35rem; font-variant-numeric: tabular-nums; }
figure { margin: 1.25rem 0; }
figcaption { font-weight: 600; color: var(--ink); margin-bottom: .25rem; }
svg { display: block; width: 100%; height: auto; stroke-linejoin: round; }
svg text { font-family: inherit; }
svg.narrow { display: none; }
@media (max-width: 600px) {
  svg.wide { display: none; }
  svg.narrow { display: block; }
}
.scroll { overflow-x: auto; margin: 1rem 0 1.5rem; }
.scroll:focus-visible { outline: 2px solid var(--completed); }
table { border-collapse: collapse; font-size: .9rem; font-variant-numeric: tabular-nums;
  min-width: 100%; }
caption { text-align: left; font-weight: 600; color: var(--ink); padding-bottom: .25rem; }
th, td { padding: .3rem .5rem; text-align: right; white-space: nowrap;
  border-bottom: 1px solid var(--panel); }
thead th { color: var(--soft); font-weight: 500; white-space: normal; vertical-align: bottom;
  border-bottom-color: var(--faint); }
th:first-child { text-align: left; position: sticky; left: 0; background: var(--paper); }
tbody th { font-weight: 500; max-width: 16rem; overflow: hidden; text-overflow: ellipsis; }
summary { cursor: pointer; padding: .25rem 0; }
@media print { svg.narrow { display: none; } svg.wide { display: block; } }
"""
