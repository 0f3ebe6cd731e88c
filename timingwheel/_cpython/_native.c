/* What Python code cannot do, or not as quickly: callback_kind, gc_untrack, gc_track and
 * clear_slot_streaming. Only the modules of these names import it, and explain each.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "../../_purgatory_cpython/_module_slots.h"

/* callback_kind: what kind of callable a callback is, as far as a timer cares. */

static PyObject *
callback_kind(PyObject *Py_UNUSED(module), PyObject *callback)
{
    if (PyCFunction_Check(callback)) { /* of an extension module, or a method of a built-in type */
        PyObject *self = PyCFunction_GET_SELF(callback);
        return PyLong_FromLong(self == NULL || PyModule_Check(self) ? 2 : 1);
    }
    PyObject *function = PyMethod_Check(callback) ? PyMethod_GET_FUNCTION(callback) : callback;
    if (!PyFunction_Check(function)) {
        return PyLong_FromLong(0);
    }
    PyCodeObject *code = (PyCodeObject *)PyFunction_GET_CODE(function);
    if (code->co_flags & (CO_GENERATOR | CO_COROUTINE | CO_ITERABLE_COROUTINE | CO_ASYNC_GENERATOR)) {
        return PyLong_FromLong(0);
    }
    int refers_to_module_only = function == callback && PyFunction_GET_CLOSURE(function) == NULL
        && PyFunction_GET_DEFAULTS(function) == NULL && PyFunction_GET_KW_DEFAULTS(function) == NULL
        && ((PyFunctionObject *)function)->func_dict == NULL;
    return PyLong_FromLong(refers_to_module_only ? 2 : 1);
}

/* gc_untrack and gc_track: whether the cycle collector visits an object. Neither runs Python code or
 * releases the GIL: compiled callers rely on that.
 *
 * Without the GIL the mark is a bit of the object. Other bits beside it change only while all threads
 * are stopped, when the object is freed, and where a list is resized, under the caller's lock.
 */
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

/* clear_slot_streaming: clear a slot of a list without waiting for the memory that it is in.
 *
 * An ordinary store waits for its cache line. This one, on x86-64, goes past the caches. It may become
 * visible later than the stores that follow, but not later than a locked instruction, without which no
 * thread can pass the GIL to another: every thread that reads the list sees the slot cleared. A
 * free-threaded Python gives no such promise, and has no such function.
 */
#ifndef Py_GIL_DISABLED
#if (defined(__x86_64__) && defined(__LP64__)) || defined(_M_X64)
#include <emmintrin.h>
#define STORE(at, value) _mm_stream_si64((long long *)(at), (long long)(value))
#else
#define STORE(at, value) (*(at) = (value))
#endif

static PyObject *
clear_slot_streaming(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t count)
{
    if (count != 3 || !PyList_CheckExact(args[0])) {
        PyErr_SetString(PyExc_TypeError, "expected a list, a slot index and the object in it");
        return NULL;
    }
    Py_ssize_t index = PyLong_AsSsize_t(args[1]);
    if (index < 0 || index >= PyList_GET_SIZE(args[0])) {
        if (!PyErr_Occurred()) {
            PyErr_SetString(PyExc_IndexError, "no such slot");
        }
        return NULL;
    }
    /* The caller has a reference too, so no object dies here and no Python code runs. */
    Py_INCREF(Py_None);
    STORE(&((PyListObject *)args[0])->ob_item[index], Py_None);
    Py_DECREF(args[2]);
    Py_RETURN_NONE;
}
#endif

static PyMethodDef methods[] = {
    {"callback_kind", callback_kind, METH_O,
     PyDoc_STR("0: look closer; 1: a function or method, not async; 2: a function without state.")},
    {"gc_untrack", gc_untrack, METH_O, PyDoc_STR("Hide an object from the cycle collector.")},
    {"gc_track", gc_track, METH_O, PyDoc_STR("Let the cycle collector visit an object again.")},
#ifndef Py_GIL_DISABLED
    {"clear_slot_streaming", (PyCFunction)(void (*)(void))clear_slot_streaming, METH_FASTCALL,
     PyDoc_STR("Write None over an object in a list, without reading the slot.")},
#endif
    {NULL, NULL, 0, NULL},
};

static PyModuleDef_Slot slots[] = {
    SLOT_EVERY_INTERPRETER
    SLOT_NO_GIL
    {0, NULL},
};

static struct PyModuleDef module = {
    PyModuleDef_HEAD_INIT,
    .m_name = "timingwheel._cpython._native",
    .m_doc = PyDoc_STR("What a timer has in C."),
    .m_size = 0,
    .m_methods = methods,
    .m_slots = slots,
};

PyMODINIT_FUNC
PyInit__native(void)
{
    return PyModuleDef_Init(&module);
}
