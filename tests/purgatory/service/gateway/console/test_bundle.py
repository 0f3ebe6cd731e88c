"""Modules as one file: each once, after what it imports, with names of its own."""

import os
import re
import shutil
import subprocess

import pytest

from purgatory.service.gateway.console.bundle import bundle

MODULES = {
    "main.js": 'import { double, times } from "./maths.js";\nimport { word } from "./words.js";\n'
    "const own = 1;\nconsole.log(word(double(own) + times));",
    "maths.js": 'import { word } from "./words.js";\nconst own = 2;\n'
    "export const times = own;\nexport function double(n) { return n * own; }\n",
    "words.js": "export async function later() {}\nexport class Word {}\n"
    "function word(n) { return `${n} words`; }\nexport { word };\n",
    "unused.js": "throw new Error();",
}


def test_blocks():
    """What is imported comes first, and once; what nothing imports is left out."""
    made = bundle(MODULES, "main.js")
    assert re.findall(r"// (\w+\.js)$", made, re.MULTILINE) == ["words.js", "maths.js", "main.js"]
    assert re.findall(r"^\s*(?:import|export)\b", made, re.MULTILINE) == []
    assert "return { later, Word, word };" in made
    assert "const { double, times } = $maths;" in made


@pytest.mark.skipif(
    shutil.which("node") is None and "CI" not in os.environ, reason="there is no node"
)
def test_it_runs():
    """As the modules would."""
    done = subprocess.run(
        ["node", "--input-type=module"],
        input=bundle(MODULES, "main.js"),
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "4 words\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('import all from "./words.js";', "main.js has 'import all from \"./words.js\";'"),
        ("export default 5;", "main.js has 'export default 5;'"),
        ('export { word } from "./words.js";', "main.js has 'export { word }"),
        ('import { a } from "./none.js";', "none.js is imported; expected one of main.js"),
    ],
)
def test_other_forms(text, message):
    """They are refused: the page would not work."""
    with pytest.raises(ValueError, match="expected") as caught:
        bundle({"main.js": text, "words.js": ""}, "main.js")
    assert message in str(caught.value)
