/* Tracebacks without the crash that mypyc has where memory is short.
 *
 * Compiled code adds a line to the traceback of each error that passes. Where there is no memory for
 * that line, mypyc gives CPython 3.12 and later the type of the error in place of the error, as the
 * context of a MemoryError; whatever follows contexts then crashes. Here the line is left out, and
 * the error stays what it is.
 *
 * setup.py puts this file into the C code, behind `_boxing.h`.
 */
#if PY_VERSION_HEX >= 0x030C0000
static CPy_NOINLINE void
add_traceback(const char *file, const char *function, int line, PyObject *globals)
{
    PyObject *error = PyErr_GetRaisedException();
    PyCodeObject *code = PyCode_NewEmpty(file, function, line);
    PyFrameObject *frame = NULL;
    if (code != NULL) {
        frame = PyFrame_New(PyThreadState_Get(), code, globals, NULL);
        Py_DECREF(code);
    }
    PyErr_Clear();
    PyErr_SetRaisedException(error);
    if (frame != NULL) {
        frame->f_lineno = line;
        PyTraceBack_Here(frame);
        Py_DECREF(frame);
    }
}

#define CPy_AddTraceback add_traceback
#endif
