/* Slots of a bucket that are set without the lock of the list.
 *
 * Without the interpreter lock, a list has a lock of its own, which CPython takes for each item that is
 * set. The list of a bucket is set and read only by threads that have the lock of its lane. It is the
 * only kind of list that is hidden from the cycle collector (`gc_tracking.py`), by which it is known
 * here.
 *
 * setup.py puts this file into the C code that mypyc has written. Worth it: see "Without the
 * interpreter lock" in docs/performance.md.
 */
#ifdef Py_GIL_DISABLED
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
