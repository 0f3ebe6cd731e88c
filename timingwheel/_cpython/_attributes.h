/* Attributes that are set with less waiting than mypyc's own code takes.
 *
 * Without the interpreter lock, mypyc sets an attribute in a critical section of its object: two
 * calls of CPython, a fifth of the time of a submission and its completion. A critical section can
 * be suspended while its thread waits. Here there is nothing to wait for between taking the lock and
 * leaving it, so the object's mutex is enough; mypyc's readers take the same one.
 *
 * setup.py puts this file into the C code that mypyc has written. Worth it: see "Without the
 * interpreter lock" in docs/performance.md.
 */
#if defined(Py_GIL_DISABLED) && PY_VERSION_HEX >= 0x030E0000
/* As CPy_SetAttrRef of mypyc: takes over the reference to `value`. */
static inline void
set_attribute(PyObject *owner, PyObject **field, PyObject *value)
{
    PyMutex_Lock(&owner->ob_mutex);
    PyObject *old = (PyObject *)_Py_atomic_load_ptr_relaxed(field);
    _Py_atomic_store_ptr_release(field, value);
    PyMutex_Unlock(&owner->ob_mutex);
    Py_XDECREF(old);
}

#define CPy_SetAttrRef set_attribute
#endif
