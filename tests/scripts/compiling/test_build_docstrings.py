"""build_docstrings puts docstrings into C code as mypyc writes it, and leaves other code alone."""

import pytest

from scripts.compiling.build_docstrings import add_docstrings, as_c

SOURCE = '''"""Say "hello"."""

import enum


class Greeter:
    """Greets."""

    def greet(self, name):
        """Greet one person."""

    def silent(self):
        pass

    @property
    def count(self):
        """How many were greeted."""

    @count.setter
    def count(self, value):
        """Not shown."""


class Tone(enum.Enum):
    """How it sounds: très bien?"""


def hello():
    """Say hello.

    Twice.
    """


def answer(greeting=Greeter):
    """Answer a greeting."""
'''

# Shortened, but in the form of mypyc 2.4.
CODE = r"""
static PyGetSetDef hello___Greeter_getseters[] = {
    {"count",
     (getter)hello___Greeter_get_count, (setter)hello___Greeter_set_count,
     NULL, NULL},
    {"_private",
     (getter)hello___Greeter_get__private, (setter)hello___Greeter_set__private,
     NULL, NULL},
};
static PyMethodDef hello___Greeter_methods[] = {
    {"greet",
     (PyCFunction)CPyPy_hello___Greeter___greet,
     METH_FASTCALL | METH_KEYWORDS, PyDoc_STR("greet($self, name)\n--\n\n")},
    {"silent",
     (PyCFunction)CPyPy_hello___Greeter___silent,
     METH_FASTCALL | METH_KEYWORDS, PyDoc_STR("silent($self)\n--\n\n")},
};
static PyTypeObject CPyType_hello___Greeter_template_ = {
    .tp_name = "Greeter",
    .tp_doc = PyDoc_STR("Greeter()\n--\n\n"),
};
static PyMethodDef hellomodule_methods[] = {
    {"hello", (PyCFunction)CPyPy_hello___hello, METH_FASTCALL | METH_KEYWORDS, PyDoc_STR("hello()\n--\n\n") /* docstring */},
    {"answer", (PyCFunction)CPyPy_hello___answer, METH_FASTCALL | METH_KEYWORDS, PyDoc_STR(NULL) /* docstring */},
};
    char result = CPyDef_hello_____top_level__();
    if (result == 2)
        goto fail;
static struct PyModuleDef hellomodule = {
    PyModuleDef_HEAD_INIT,
    "greetings.hello",
    NULL, /* docstring */
};
"""  # noqa: E501


@pytest.fixture
def tree(tmp_path, monkeypatch):
    """A package with one module, and the C code made of it."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "greetings").mkdir()
    (tmp_path / "greetings" / "hello.py").write_text(SOURCE)
    (tmp_path / "native.c").write_text(CODE)
    return tmp_path


def test_each_docstring_finds_its_place(tree):
    """Behind a signature, or instead of NULL; nothing else changes."""
    assert add_docstrings(["native.c"], ["greetings/hello.py"]) == 7
    code = (tree / "native.c").read_text()
    assert r'PyDoc_STR("greet($self, name)\n--\n\nGreet one person.")' in code
    assert r'PyDoc_STR("silent($self)\n--\n\n")' in code
    assert r'PyDoc_STR("Greeter()\n--\n\nGreets.")' in code
    assert r'PyDoc_STR("hello()\n--\n\nSay hello.\012\012Twice.") /* docstring */' in code
    assert 'PyDoc_STR("Answer a greeting.") /* docstring */' in code
    assert 'hello___Greeter_set_count,\n     PyDoc_STR("How many were greeted."), NULL}' in code
    assert "hello___Greeter_set__private,\n     NULL, NULL}" in code
    assert r'PyModule_SetDocString(module, "Say \042hello\042.")' in code


def test_classes_made_at_run_time_get_theirs_when_the_module_has_run(tree):
    """Enums and named tuples are no types of the C code."""
    add_docstrings(["native.c"], ["greetings/hello.py"])
    code = (tree / "native.c").read_text()
    assert 'PyObject_GetAttrString(module, "Tone")' in code
    assert r'PyUnicode_FromString("How it sounds: tr\303\250s bien\077")' in code
    assert code.count("PyObject_GetAttrString") == 1


@pytest.mark.parametrize("code", ["", "int main(void) { return 0; }\n", CODE])
def test_what_is_not_known_stays_as_it_is(tree, code):
    """C code of another form or of other modules is not touched, and that is no error."""
    (tree / "native.c").write_text(code)
    assert add_docstrings(["native.c"], ["greetings/other.py"]) == 0
    assert (tree / "native.c").read_text() == code


def test_a_docstring_is_an_ascii_literal():
    """Quotes, backslashes, trigraphs, line ends and umlauts are escaped."""
    assert as_c('a"b\\c??=\nü') == r"a\042b\134c\077\077=\012\303\274"
