/* Imported in the main interpreter, an empty module; in any other one, an ImportError.
 *
 * mypyc's code keeps its classes, constants and globals once for the process: a second interpreter
 * would overwrite those of the first. CPython refuses that only in interpreters with a lock of their
 * own, since 3.12. So this module is imported before all compiled ones. It is C, because Python code
 * cannot ask which interpreter it is in.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "_module_slots.h"

static int
refuse_other_interpreters(PyObject *Py_UNUSED(module))
{
    if (PyInterpreterState_Get() == PyInterpreterState_Main()) {
        return 0;
    }
    PyErr_SetString(PyExc_ImportError,
                    "timer-purgatory is compiled and so works in the main interpreter only, and this "
                    "is a subinterpreter; installed with PURGATORY_PURE=1 it works here too");
    return -1;
}

static PyModuleDef_Slot slots[] = {
    {Py_mod_exec, refuse_other_interpreters},
    SLOT_EVERY_INTERPRETER /* to refuse by itself */
    SLOT_NO_GIL
    {0, NULL},
};

static struct PyModuleDef module = {
    PyModuleDef_HEAD_INIT,
    .m_name = "_main_interpreter",
    .m_doc = PyDoc_STR("Can be imported in the main interpreter only."),
    .m_size = 0,
    .m_slots = slots,
};

PyMODINIT_FUNC
PyInit__main_interpreter(void)
{
    return PyModuleDef_Init(&module);
}
