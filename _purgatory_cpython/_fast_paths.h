/* Attributes, slots of buckets and calls that take less than mypyc's own code.
 *
 * scripts/compiling puts this file into mypyc's C code. Worth it: see docs/mechanisms.md.
 */

#ifdef Py_GIL_DISABLED
#if PY_VERSION_HEX >= 0x030E0000
/* Attributes. Without the interpreter lock, mypyc sets one in a critical section of its object: two
 * calls of CPython, a fifth of the time of a submission and its completion, because a thread may wait
 * inside. No thread waits here between taking the lock and leaving it, so the object's mutex is
 * enough; mypyc's readers take the same one.
 *
 * The mutex keeps the old value alive while a reader counts a reference to it. A missing old value, as
 * in a constructor, or one that is never freed, such as None, needs no mutex: a compare-and-exchange
 * is enough.
 */
static inline int
is_never_freed(PyObject *value)
{
    return value == NULL
        || _Py_atomic_load_uint32_relaxed(&value->ob_ref_local) == _Py_IMMORTAL_REFCNT_LOCAL;
}

/* Whether this thread has the only reference, as in a constructor. */
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

/* Slots. CPython takes a list's own lock for each item that is set. The list of a bucket is used only
 * by threads that have the lock of its lane. No other kind of list is hidden from the cycle collector
 * (`gc_tracking.py`): so this code knows it.
 */
/* As CPyList_SetItem of mypyc: takes over the reference to `value`. */
static inline bool
set_item(PyObject *list, CPyTagged index, PyObject *value)
{
    if (PyObject_GC_IsTracked(list) || !CPyTagged_CheckShort(index)) {
        return CPyList_SetItem(list, index, value);
    }
    Py_ssize_t place = CPyTagged_ShortAsSsize_t(index);
    if (place < 0 || place >= PyList_GET_SIZE(list)) {
        return CPyList_SetItem(list, index, value);
    }
    PyObject **slot = &((PyListObject *)list)->ob_item[place];
    PyObject *old = *slot;
    _Py_atomic_store_ptr_release(slot, value);
    Py_DECREF(old);
    return true;
}

#define CPyList_SetItem set_item
#endif

/* Calls. By way of PyObject_Vectorcall, a call of a C function with one argument or none, such as those
 * of a section, takes 60 instructions, which find out what it is and count how deep calls are nested:
 * more than the function itself. Here it is called at once. Not functions of other kinds: one more
 * branch here cost 50 ns of a `schedule` of 500.
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
