/* clear_slot_streaming: clear a slot of a list without waiting for the memory that it is in.
 *
 * Python code cannot do it, so this is C. Only streaming_store.py imports it.
 *
 * An ordinary store waits until the cache line that it changes is in the cache. This one (on x86-64;
 * elsewhere it is an ordinary one) goes past the caches. Such stores may become visible later than
 * those that follow them, but not later than a locked instruction, and a thread cannot pass the GIL
 * to another one without any: every thread that reads the list sees the slot cleared. A free-threaded
 * Python gives no such promise, so setup.py leaves this file out there.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#ifdef Py_GIL_DISABLED
#error "the streaming store relies on the interpreter lock"
#endif

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

static PyMethodDef methods[] = {
    {"clear_slot_streaming", (PyCFunction)(void (*)(void))clear_slot_streaming, METH_FASTCALL,
     PyDoc_STR("Write None over an object in a list, without reading the slot.")},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef module = {
    PyModuleDef_HEAD_INIT,
    .m_name = "timingwheel._cpython._streaming_store",
    .m_doc = PyDoc_STR("Clear slots of a list without waiting for memory."),
    .m_size = 0,
    .m_methods = methods,
};

PyMODINIT_FUNC
PyInit__streaming_store(void)
{
    return PyModuleDef_Init(&module);
}
