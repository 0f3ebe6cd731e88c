/* Lists without the crash that CPython has where memory is short.
 *
 * Without the interpreter lock, PyList_New of CPython 3.13 and 3.14 frees the new list if there is
 * no memory for its items. Their pointer is not set by then, and is followed, unless the list is one
 * of the empty ones that are kept for the next lists. So one is put there first.
 *
 * setup.py puts this file into the C code that mypyc has written. The same function is called by
 * interpreted code (`[a, b]`), where this cannot help.
 */
#ifdef Py_GIL_DISABLED
static inline int
keep_empty_list(void)
{
    PyObject *empty = PyList_New(0);
    Py_XDECREF(empty);
    return empty != NULL;
}

static inline PyObject *
new_list(Py_ssize_t size)
{
    return size <= 0 || keep_empty_list() ? PyList_New(size) : NULL;
}

#define PyList_New new_list
#define CPyDict_Items(dict) (keep_empty_list() ? CPyDict_Items(dict) : NULL)
#define CPyDict_Keys(dict) (keep_empty_list() ? CPyDict_Keys(dict) : NULL)
#define CPyDict_Values(dict) (keep_empty_list() ? CPyDict_Values(dict) : NULL)
#endif
