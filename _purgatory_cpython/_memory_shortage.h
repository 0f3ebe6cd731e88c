/* Compiled code that raises MemoryError where mypyc's own, and CPython, crash.
 *
 * scripts/compiling puts this file into mypyc's C code, after mypyc's own headers.
 */

/* Boxing. mypyc's code takes for granted that an int, a float or a small tuple can always be made of a
 * native value, and crashes or aborts without memory. So some memory is kept: a failed boxing gives a
 * part of it back, and tries again. The next statement that CPython checks raises MemoryError.
 */
/* The sizes of what is boxed, by which CPython's allocator sorts its memory. */
static const size_t spare_sizes[] = {32, 48, 64, 80};
#define SPARE_SIZES (sizeof(spare_sizes) / sizeof(spare_sizes[0]))
#define SPARE_SETS 128

/* One for all parts of the library: scripts/compiling/build_parts.py. */
#ifdef SPARE_IS_IN_FIRST_PART
#define SPARE extern
#else
#define SPARE
#endif
SPARE void *spare[SPARE_SETS][SPARE_SIZES];
SPARE int spare_sets;

#ifdef Py_GIL_DISABLED
SPARE PyMutex spare_lock;
#define LOCK_SPARE() PyMutex_Lock(&spare_lock)
#define UNLOCK_SPARE() PyMutex_Unlock(&spare_lock)
#else
#define LOCK_SPARE()
#define UNLOCK_SPARE()
#endif

static void
drop_spare_set(void **set)
{
    for (size_t n = 0; n < SPARE_SIZES; n++) {
        PyObject_Free(set[n]);
        set[n] = NULL;
    }
}

static void
fill_spare(void)
{
    LOCK_SPARE();
    for (; spare_sets < SPARE_SETS; spare_sets++) {
        for (size_t n = 0; n < SPARE_SIZES; n++) {
            spare[spare_sets][n] = PyObject_Malloc(spare_sizes[n]);
            if (spare[spare_sets][n] == NULL) {
                drop_spare_set(spare[spare_sets]);
                UNLOCK_SPARE();
                return;
            }
        }
    }
    UNLOCK_SPARE();
}

/* Give memory back after a failure; 0 if there is none left. */
static int
give_back_spare(void)
{
    PyErr_Clear();
    LOCK_SPARE();
    int found = spare_sets > 0;
    if (found) {
        drop_spare_set(spare[--spare_sets]);
    }
    UNLOCK_SPARE();
    return found;
}

/* Each is called in place of CPython's function of the same name. */
#define DEFINE_BOX(name, type, box)                                \
    static CPy_NOINLINE PyObject *name##_short(type value)         \
    {                                                              \
        PyObject *boxed = NULL;                                    \
        while (boxed == NULL && give_back_spare()) {               \
            boxed = box(value);                                    \
        }                                                          \
        if (boxed == NULL) {                                       \
            CPyError_OutOfMemory();                                \
        }                                                          \
        fill_spare();                                              \
        return boxed;                                              \
    }                                                              \
    static inline PyObject *name(type value)                       \
    {                                                              \
        PyObject *boxed = box(value);                              \
        return likely(boxed != NULL) ? boxed : name##_short(value); \
    }

DEFINE_BOX(boxed_long, long, PyLong_FromLong)
DEFINE_BOX(boxed_long_long, long long, PyLong_FromLongLong)
DEFINE_BOX(boxed_ssize, Py_ssize_t, PyLong_FromSsize_t)
DEFINE_BOX(boxed_double, double, PyFloat_FromDouble)
DEFINE_BOX(new_tuple, Py_ssize_t, PyTuple_New)

/* As mypyc's own, which aborts. */
static inline PyObject *
boxed_tagged(CPyTagged value)
{
    return unlikely(CPyTagged_CheckLong(value)) ? CPyTagged_LongAsObject(value)
                                                : boxed_ssize(CPyTagged_ShortAsSsize_t(value));
}

#define PyLong_FromLong boxed_long
#define PyLong_FromLongLong boxed_long_long
#define PyFloat_FromDouble boxed_double
#define PyTuple_New new_tuple
#define CPyTagged_StealAsObject boxed_tagged

/* Tracebacks. Compiled code adds a line to the traceback of each error that passes. Without memory for
 * that line, mypyc gives CPython 3.12 and later the type of the error in place of the error, as the
 * context of a MemoryError, and code that follows contexts crashes. Here the line is left out.
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

/* Lists. Without the interpreter lock, PyList_New of CPython 3.13 and 3.14, if there is no memory for
 * the items, frees the new list by a pointer that is not set yet, unless the list is one of the empty
 * ones kept for the next lists. So one is put there first. Interpreted code (`[a, b]`) is not helped.
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
