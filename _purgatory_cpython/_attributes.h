/* Attributes that are set with less waiting than mypyc's own code takes.
 *
 * Without the interpreter lock, mypyc sets an attribute in a critical section of its object: two
 * calls of CPython, a fifth of the time of a submission and its completion. A critical section can
 * be suspended while its thread waits. Here there is nothing to wait for between taking the lock and
 * leaving it, so the object's mutex is enough; mypyc's readers take the same one.
 *
 * The mutex is for the old value, which must not be freed while a reader counts a reference to it.
 * Where there is none, as in a constructor, or one that is never freed, such as None, it is not
 * needed: the field is changed only if it still holds that.
 *
 * setup.py puts this file into the C code that mypyc has written. Worth it: see "Without the
 * interpreter lock" in docs/performance.md.
 */
#if defined(Py_GIL_DISABLED) && PY_VERSION_HEX >= 0x030E0000
static inline int
is_never_freed(PyObject *value)
{
    return value == NULL
        || _Py_atomic_load_uint32_relaxed(&value->ob_ref_local) == _Py_IMMORTAL_REFCNT_LOCAL;
}

/* Whether this thread has the only reference, as while it constructs the object. */
static inline int
is_mine(PyObject *object)
{
    return object->ob_tid == _Py_ThreadId()
        && _Py_atomic_load_uint32_relaxed(&object->ob_ref_local) == 1
        && _Py_atomic_load_ssize_relaxed(&object->ob_ref_shared) == 0;
}

static CPy_NOINLINE void
set_attribute_locked(PyObject *owner, PyObject **field, PyObject *value)
{
    PyMutex_Lock(&owner->ob_mutex);
    PyObject *old = (PyObject *)_Py_atomic_load_ptr_relaxed(field);
    if (is_never_freed(old)) { /* others may change it without the mutex */
        while (!_Py_atomic_compare_exchange_ptr(field, &old, value)) {
        }
    }
    else {
        _Py_atomic_store_ptr_release(field, value);
    }
    PyMutex_Unlock(&owner->ob_mutex);
    Py_XDECREF(old);
}

/* As CPy_SetAttrRef of mypyc: takes over the reference to `value`. */
static inline void
set_attribute(PyObject *owner, PyObject **field, PyObject *value)
{
    PyObject *old = (PyObject *)_Py_atomic_load_ptr_relaxed(field);
    if (old == NULL && is_mine(owner)) {
        _Py_atomic_store_ptr_release(field, value);
    }
    else if (!is_never_freed(old) || !_Py_atomic_compare_exchange_ptr(field, &old, value)) {
        set_attribute_locked(owner, field, value);
    }
}

#define CPy_SetAttrRef set_attribute
#endif
