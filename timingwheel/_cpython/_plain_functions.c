/* is_plain_function: a function or method that returns no coroutine.
 *
 * Only callback.py imports it. Python code needs two look-ups of attributes for the same answer, for
 * each timer.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

static PyObject *
is_plain_function(PyObject *Py_UNUSED(module), PyObject *callback)
{
    if (PyMethod_Check(callback)) {
        callback = PyMethod_GET_FUNCTION(callback);
    }
    if (!PyFunction_Check(callback)) {
        Py_RETURN_FALSE;
    }
    PyCodeObject *code = (PyCodeObject *)PyFunction_GET_CODE(callback);
    if (code->co_flags & (CO_COROUTINE | CO_ASYNC_GENERATOR)) {
        Py_RETURN_FALSE;
    }
    Py_RETURN_TRUE;
}

static PyMethodDef methods[] = {
    {"is_plain_function", is_plain_function, METH_O,
     PyDoc_STR("Whether it is a function or bound method of Python code that is not async.")},
    {NULL, NULL, 0, NULL},
};

static PyModuleDef_Slot slots[] = {
#ifdef Py_mod_multiple_interpreters
    {Py_mod_multiple_interpreters, Py_MOD_PER_INTERPRETER_GIL_SUPPORTED},
#endif
#ifdef Py_mod_gil
    {Py_mod_gil, Py_MOD_GIL_NOT_USED},
#endif
    {0, NULL},
};

static struct PyModuleDef module = {
    PyModuleDef_HEAD_INIT,
    .m_name = "timingwheel._cpython._plain_functions",
    .m_doc = PyDoc_STR("What a timer may call without a further look."),
    .m_size = 0,
    .m_methods = methods,
    .m_slots = slots,
};

PyMODINIT_FUNC
PyInit__plain_functions(void)
{
    return PyModuleDef_Init(&module);
}
