"""build_headers puts its headers into C code as mypyc writes it, and leaves other code alone."""

from scripts.compiling.build_headers import add_headers

# Shortened, but in the form of mypyc 2.4.
CODE = """#include <init.c>
#include <function_wrapper.c>
#include "__native_name.h"
#include "__native_internal_name.h"
static PyObject *f(void) { return PyLong_FromLongLong(1); }
    PyMODINIT_FUNC PyInit_name__mypyc(void) {
        static PyObject *module = NULL;
"""


def test_headers_come_after_mypycs(tmp_path):
    """What was compiled uses them, mypyc's own functions do not; the memory is there at once."""
    file = tmp_path / "name.c"
    file.write_text(CODE, encoding="utf-8")
    assert add_headers([str(file)]) == 1
    after = file.read_text(encoding="utf-8")
    places = [
        after.index(part)
        for part in (
            "<function_wrapper.c>",
            "#define PyLong_FromLongLong",
            "#define CPy_AddTraceback",
            "#define PyList_New",
            "#define CPy_SetAttrRef",
            "#define CPyList_SetItem",
            "#define PyObject_Vectorcall",
            '"__native_name.h"',
            "PyInit_name__mypyc(void) {\n    fill_spare();",
        )
    ]
    assert places == sorted(places)
    assert add_headers([str(file)]) == 0


def test_other_code_stays(tmp_path):
    """A file that mypyc writes in another form is left alone."""
    file = tmp_path / "name.c"
    file.write_text("int main(void) { return 0; }", encoding="utf-8")
    assert add_headers([str(file)]) == 0
    assert file.read_text(encoding="utf-8") == "int main(void) { return 0; }"
