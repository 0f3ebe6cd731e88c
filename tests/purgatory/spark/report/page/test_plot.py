"""Drawings, and the style sheet that colours them."""

import re
import xml.etree.ElementTree as ET


def test_drawings_are_coloured_by_the_page(page):
    """Drawings use only classes that the style sheet knows, and that has all colours twice."""
    style = re.search(r"<style>(.*?)</style>", page, re.DOTALL)[1]
    for drawing in re.findall(r"<svg.*?</svg>", page, re.DOTALL):
        ET.fromstring(drawing)
        assert not re.search(r"#[0-9a-f]{6}\b", drawing)
        for css in set(" ".join(re.findall(r'class="([^"]*)"', drawing)).split()):
            assert re.search(rf"\.{css}\b", style) or css == "d0", css
    used = set(re.findall(r"var\((--[\w-]+)\)", style))
    light, dark = re.findall(r":root \{(.*?)\}", style, re.DOTALL)
    for variables in (light, dark):
        assert used <= set(re.findall(r"(--[\w-]+):", variables))
