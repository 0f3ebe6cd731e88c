/* callback_kind: what kind of callable a callback is, as far as a timer cares.
 *
 * Only callback_kind.py imports it. Python code needs several look-ups of attributes for the same
 * answer, for each timer.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "../../_purgatory_cpython/_module_slots.h"

static PyObject *
callback_kind(PyObject *Py_UNUSED(module), PyObject *callback)
{
    if (PyCFunction_Check(callback)) { /* of an extension module, or a method of a built-in type */
        PyObject *self = PyCFunction_GET_SELF(callback);
        return PyLong_FromLong(self == NULL || PyModule_Check(self) ? 2 : 1);
    }
    PyObject *function = PyMethod_Check(callback) ? PyMethod_GET_FUNCTION(callback) : callback;
    if (!PyFunction_Check(function)) {
        return PyLong_FromLong(0);
    }
    PyCodeObject *code = (PyCodeObject *)PyFunction_GET_CODE(function);
    if (code->co_flags & (CO_COROUTINE | CO_ASYNC_GENERATOR)) {
        return PyLong_FromLong(0);
    }
    int refers_to_module_only = function == callback && PyFunction_GET_CLOSURE(function) == NULL
        && PyFunction_GET_DEFAULTS(function) == NULL && PyFunction_GET_KW_DEFAULTS(function) == NULL
        && ((PyFunctionObject *)function)->func_dict == NULL;
    return PyLong_FromLong(refers_to_module_only ? 2 : 1);
}

static PyMethodDef methods[] = {
    {"callback_kind", callback_kind, METH_O,
     PyDoc_STR("0: look closer; 1: a function or method, not async; 2: a function without state.")},
    {NULL, NULL, 0, NULL},
};

static PyModuleDef_Slot slots[] = {
    SLOT_EVERY_INTERPRETER
    SLOT_NO_GIL
    {0, NULL},
};

static struct PyModuleDef module = {
    PyModuleDef_HEAD_INIT,
    .m_name = "timingwheel._cpython._callback_kind",
    .m_doc = PyDoc_STR("What kind of callable a callback is."),
    .m_size = 0,
    .m_methods = methods,
    .m_slots = slots,
};

PyMODINIT_FUNC
PyInit__callback_kind(void)
{
    return PyModuleDef_Init(&module);
}
