/* gc_untrack and gc_track: whether the cycle collector visits an object.
 *
 * Python code cannot do it, so this is C. Only gc_tracking.py imports it. Neither function runs
 * Python code or releases the GIL: compiled callers rely on that.
 *
 * Without the GIL the mark is a bit of the object, beside others that CPython changes under the
 * object's own lock; and tracking a tracked object ends the process. So look and change together,
 * under that lock.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "_module_slots.h"

/* The lock itself: a critical section can be suspended while its thread waits, and here is nothing to
 * wait for. That saves 20 ns for each task. */
#ifdef Py_GIL_DISABLED
#define LOCK(object) PyMutex_Lock(&(object)->ob_mutex)
#define UNLOCK(object) PyMutex_Unlock(&(object)->ob_mutex)
#else
#define LOCK(object)
#define UNLOCK(object)
#endif

static PyObject *
gc_untrack(PyObject *Py_UNUSED(module), PyObject *object)
{
    LOCK(object);
    if (PyObject_IS_GC(object) && PyObject_GC_IsTracked(object)) {
        PyObject_GC_UnTrack(object);
    }
    UNLOCK(object);
    Py_RETURN_NONE;
}

static PyObject *
gc_track(PyObject *Py_UNUSED(module), PyObject *object)
{
    LOCK(object);
    if (PyObject_IS_GC(object) && !PyObject_GC_IsTracked(object)) {
        PyObject_GC_Track(object);
    }
    UNLOCK(object);
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
