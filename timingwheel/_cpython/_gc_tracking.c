/* gc_untrack and gc_track: whether the cycle collector visits an object.
 *
 * Python code cannot do it, so this is C. Only gc_tracking.py imports it. Neither function runs
 * Python code or releases the GIL: compiled callers rely on that.
 *
 * Without the GIL the mark is a bit of the object. Other bits beside it change only while all threads
 * are stopped, when the object is freed, and where a list is resized, which the caller of these does
 * under the same lock. Two threads that change the mark at a time leave it as one of them wants it.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "../../_purgatory_cpython/_module_slots.h"

#ifdef Py_GIL_DISABLED
#define TRACKED 1 /* _PyGC_BITS_TRACKED, from 3.13 to 3.15; the tests notice another one */

static void
change_mark(PyObject *object, int tracked)
{
    uint8_t bits = _Py_atomic_load_uint8_relaxed(&object->ob_gc_bits);
    uint8_t changed = tracked ? bits | TRACKED : bits & ~TRACKED;
    _Py_atomic_store_uint8_relaxed(&object->ob_gc_bits, changed);
}
#else
static void
change_mark(PyObject *object, int tracked)
{
    if (tracked && !PyObject_GC_IsTracked(object)) { /* to track a tracked one ends the process */
        PyObject_GC_Track(object);
    }
    else if (!tracked) {
        PyObject_GC_UnTrack(object);
    }
}
#endif

static PyObject *
gc_untrack(PyObject *Py_UNUSED(module), PyObject *object)
{
    if (PyObject_IS_GC(object)) {
        change_mark(object, 0);
    }
    Py_RETURN_NONE;
}

static PyObject *
gc_track(PyObject *Py_UNUSED(module), PyObject *object)
{
    if (PyObject_IS_GC(object)) {
        change_mark(object, 1);
    }
    Py_RETURN_NONE;
}

static PyMethodDef methods[] = {
    {"gc_untrack", gc_untrack, METH_O, PyDoc_STR("Hide an object from the cycle collector.")},
    {"gc_track", gc_track, METH_O, PyDoc_STR("Let the cycle collector visit an object again.")},
    {NULL, NULL, 0, NULL},
};

static PyModuleDef_Slot slots[] = {
    SLOT_EVERY_INTERPRETER
    SLOT_NO_GIL
    {0, NULL},
};

static struct PyModuleDef module = {
    PyModuleDef_HEAD_INIT,
    .m_name = "timingwheel._cpython._gc_tracking",
    .m_doc = PyDoc_STR("Whether the cycle collector visits an object."),
    .m_size = 0,
    .m_methods = methods,
    .m_slots = slots,
};

PyMODINIT_FUNC
PyInit__gc_tracking(void)
{
    return PyModuleDef_Init(&module);
}
