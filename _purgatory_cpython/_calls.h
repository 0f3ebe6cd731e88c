/* Calls of C functions without a detour.
 *
 * Compiled code calls a function of C that takes one argument or none, such as those of a section, by
 * way of PyObject_Vectorcall: 60 instructions that find out what it is and count how deep calls are
 * nested, which is more than what such a function does. Here it is called at once. How deep calls are
 * nested is counted by what runs Python code.
 * Not functions of other kinds: one more branch here cost 50 ns of a `schedule` of 500.
 *
 * setup.py puts this file into the C code that mypyc has written. Worth it: see "Without the
 * interpreter lock" in docs/performance.md.
 */
static inline PyObject *
call_at_once(PyObject *callable, PyObject *const *arguments, size_t count, PyObject *names)
{
    if (names == NULL && Py_IS_TYPE(callable, &PyCFunction_Type)) {
        PyMethodDef *method = ((PyCFunctionObject *)callable)->m_ml;
        PyObject *owner = ((PyCFunctionObject *)callable)->m_self;
        if (method->ml_flags == METH_O && PyVectorcall_NARGS(count) == 1) {
            return method->ml_meth(owner, arguments[0]);
        }
        if (method->ml_flags == METH_NOARGS && PyVectorcall_NARGS(count) == 0) {
            return method->ml_meth(owner, NULL);
        }
    }
    return PyObject_Vectorcall(callable, arguments, count, names);
}

#define PyObject_Vectorcall call_at_once
