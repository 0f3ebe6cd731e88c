/* Stand-ins for the interpreter lock: SectionLock, keep_for_ever, thread_dict, thread_number,
 * sixteenth_of, part_of. Only sections.py imports it, only on a free-threaded Python.
 *
 * A SectionLock is re-entrant, and held for less than a microsecond. So a thread that finds it taken
 * looks again for a while, less and less often: to sleep and to be woken takes ten times as long (and
 * in CPython 3.14 a PyMutex yields the processor forty times before it looks again). If it stays taken,
 * because its thread was suspended or keys are compared under it, the thread sleeps between two looks,
 * without its thread state, so it holds up no collection. It runs no signal handler.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#ifdef _WIN32
#include <windows.h>
#define NAP() Sleep(0)
#define THREAD_LOCAL __declspec(thread)
#else
#include <time.h>
#define NAP() nanosleep(&(struct timespec){.tv_nsec = 20000}, NULL)
#define THREAD_LOCAL _Thread_local
#endif

#if defined(__x86_64__) || defined(__i386__)
#define RELAX() __builtin_ia32_pause()
#elif defined(__aarch64__)
#define RELAX() __asm__ volatile("isb" ::: "memory")
#else
#define RELAX() ((void)0)
#endif

#define LOOKS 60       /* at a taken lock, before the thread sleeps */
#define MOST_RELAX 32  /* between two looks */
#define GROUPS 16      /* of locks of objects that have none of their own; a power of two */
#define IN_GROUP 64    /* a power of two */
#define SHARED (GROUPS * IN_GROUP)
#define MOST_NUMBER 255 /* of a thread */
#define LINE 64        /* bytes that processors hand to each other */

typedef struct {
    PyObject_HEAD
    uintptr_t owner;  /* the thread that has it; 0: none */
    Py_ssize_t again; /* how often that thread took it once more */
} SectionLock;

static PyTypeObject SectionLock_Type;

static union {
    SectionLock lock;
    char line[(sizeof(SectionLock) + LINE - 1) / LINE * LINE];
} shared[SHARED];

static int
try_take(SectionLock *self, uintptr_t me)
{
    uintptr_t none = 0;
    return _Py_atomic_load_uintptr_relaxed(&self->owner) == 0
        && _Py_atomic_compare_exchange_uintptr(&self->owner, &none, me);
}

static void
wait_and_take(SectionLock *self, uintptr_t me)
{
    int relax = 1;
    for (int looks = 0; looks < LOOKS; looks++) {
        for (int n = 0; n < relax; n++) {
            RELAX();
        }
        if (try_take(self, me)) {
            return;
        }
        if (relax < MOST_RELAX) {
            relax *= 2;
        }
    }
    Py_BEGIN_ALLOW_THREADS
    while (!try_take(self, me)) {
        NAP();
    }
    Py_END_ALLOW_THREADS
}

static void
take(SectionLock *self)
{
    uintptr_t me = _Py_ThreadId();
    if (_Py_atomic_load_uintptr_relaxed(&self->owner) == me) {
        self->again++;
    }
    else if (!try_take(self, me)) {
        wait_and_take(self, me);
    }
}

static int
is_owned(SectionLock *self)
{
    return _Py_atomic_load_uintptr_relaxed(&self->owner) == _Py_ThreadId();
}

static int
give(SectionLock *self)
{
    if (!is_owned(self)) {
        PyErr_SetString(PyExc_RuntimeError, "this thread does not have the lock");
        return -1;
    }
    if (self->again) {
        self->again--;
    }
    else {
        _Py_atomic_store_uintptr_release(&self->owner, 0);
    }
    return 0;
}

static PyObject *
lock_acquire(PyObject *self, PyObject *Py_UNUSED(arguments))
{
    take((SectionLock *)self);
    Py_RETURN_TRUE;
}

static PyObject *
lock_release(PyObject *self, PyObject *Py_UNUSED(arguments))
{
    if (give((SectionLock *)self) < 0) {
        return NULL;
    }
    Py_RETURN_NONE;
}

static PyObject *
lock_is_owned(PyObject *self, PyObject *Py_UNUSED(arguments))
{
    return PyBool_FromLong(is_owned((SectionLock *)self));
}

static PyObject *
lock_reinit(PyObject *self, PyObject *Py_UNUSED(arguments))
{
    ((SectionLock *)self)->owner = 0;
    ((SectionLock *)self)->again = 0;
    Py_RETURN_NONE;
}

static PyObject *
lock_exit(PyObject *self, PyObject *const *Py_UNUSED(arguments), Py_ssize_t Py_UNUSED(count))
{
    return lock_release(self, NULL);
}

static PyMethodDef lock_methods[] = {
    {"acquire", lock_acquire, METH_NOARGS, PyDoc_STR("Wait for the lock and take it.")},
    {"release", lock_release, METH_NOARGS, PyDoc_STR("Leave it as often as it was taken.")},
    {"_is_owned", lock_is_owned, METH_NOARGS, PyDoc_STR("Whether this thread has it.")},
    {"_at_fork_reinit", lock_reinit, METH_NOARGS, PyDoc_STR("Free it, whoever has it.")},
    {"__enter__", lock_acquire, METH_NOARGS, NULL},
    {"__exit__", (PyCFunction)(void (*)(void))lock_exit, METH_FASTCALL, NULL},
    {NULL, NULL, 0, NULL},
};

static PyTypeObject SectionLock_Type = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "_purgatory_cpython._sections.SectionLock",
    .tp_doc = PyDoc_STR("A re-entrant lock, held for a few lines."),
    .tp_basicsize = sizeof(shared[0]), /* no two in one line */
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_methods = lock_methods,
    .tp_new = PyType_GenericNew,
};

static int
check(PyObject *lock)
{
    if (!Py_IS_TYPE(lock, &SectionLock_Type)) {
        PyErr_SetString(PyExc_TypeError, "expected a SectionLock");
        return -1;
    }
    return 0;
}

static PyObject *
enter_section(PyObject *Py_UNUSED(module), PyObject *lock)
{
    if (check(lock) < 0) {
        return NULL;
    }
    take((SectionLock *)lock);
    Py_RETURN_NONE;
}

static PyObject *
leave_section(PyObject *Py_UNUSED(module), PyObject *lock)
{
    if (check(lock) < 0 || give((SectionLock *)lock) < 0) {
        return NULL;
    }
    Py_RETURN_NONE;
}

/* Small, so that the int exists. Threads beyond the last number share one. */
static int
number_of_thread(void)
{
    static int threads = 0;
    static THREAD_LOCAL int number = -1;
    if (number < 0) {
        number = _Py_atomic_add_int(&threads, 1) & MOST_NUMBER;
    }
    return number;
}

/* Of a group that few threads choose from: the memory of two threads is laid out alike, so addresses
 * alone would give the objects of both the same locks. */
static PyObject *
shared_lock(PyObject *Py_UNUSED(module), PyObject *object)
{
    uintptr_t address = (uintptr_t)object;
    size_t group = number_of_thread() & (GROUPS - 1);
    size_t in_group = (address >> 4 ^ address >> 12) & (IN_GROUP - 1);
    return (PyObject *)&shared[group * IN_GROUP + in_group].lock;
}

/* In a forked child: free what other threads held. */
static PyObject *
free_shared_locks(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(arguments))
{
    for (int n = 0; n < SHARED; n++) {
        SectionLock *lock = &shared[n].lock;
        if (!is_owned(lock)) {
            lock->again = 0;
            _Py_atomic_store_uintptr_release(&lock->owner, 0);
        }
    }
    Py_RETURN_NONE;
}

/* As PyUnstable_SetImmortal, which 3.15 has; the collector must not be told of it twice. */
PyAPI_FUNC(void) _Py_SetImmortal(PyObject *object);

static PyObject *
keep_for_ever(PyObject *Py_UNUSED(module), PyObject *object)
{
#if PY_VERSION_HEX >= 0x030E0000
    _Py_SetImmortal(object);
#else
    (void)object;
#endif
    Py_RETURN_NONE;
}

static PyObject *
thread_dict(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(arguments))
{
    PyObject *dict = PyThreadState_GetDict();
    return dict == NULL ? PyErr_NoMemory() : Py_NewRef(dict);
}

static PyObject *
thread_number(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(arguments))
{
    return PyLong_FromLong(number_of_thread());
}

/* The upper four bits of the product: hashes of ints that count up in steps are spread as well. */
static int
number_of_key(PyObject *key)
{
    Py_hash_t hash = PyObject_Hash(key);
    return hash == -1 ? -1 : (int)((uint64_t)hash * 0x9E3779B97F4A7C15u >> 60);
}

static PyObject *
sixteenth_of(PyObject *Py_UNUSED(module), PyObject *key)
{
    int number = number_of_key(key);
    return number < 0 ? NULL : PyLong_FromLong(number);
}

static PyObject *
part_of(PyObject *Py_UNUSED(module), PyObject *const *arguments, Py_ssize_t count)
{
    if (count != 2 || !PyTuple_CheckExact(arguments[0]) || PyTuple_GET_SIZE(arguments[0]) != 16) {
        PyErr_SetString(PyExc_TypeError, "expected a tuple of sixteen, and a key");
        return NULL;
    }
    int number = number_of_key(arguments[1]);
    return number < 0 ? NULL : Py_NewRef(PyTuple_GET_ITEM(arguments[0], number));
}

static PyMethodDef methods[] = {
    {"enter_section", enter_section, METH_O, PyDoc_STR("Wait for a lock and take it.")},
    {"leave_section", leave_section, METH_O, PyDoc_STR("Leave a lock as often as it was taken.")},
    {"shared_lock", shared_lock, METH_O, PyDoc_STR("The lock of an object without its own.")},
    {"free_shared_locks", free_shared_locks, METH_NOARGS, PyDoc_STR("Free what no thread holds.")},
    {"keep_for_ever", keep_for_ever, METH_O, PyDoc_STR("Count no references to it any more.")},
    {"thread_dict", thread_dict, METH_NOARGS, PyDoc_STR("The dict of this thread.")},
    {"thread_number", thread_number, METH_NOARGS, PyDoc_STR("This thread's number, 0 to 255.")},
    {"sixteenth_of", sixteenth_of, METH_O, PyDoc_STR("A number of a key, 0 to 15, by its hash.")},
    {"part_of", (PyCFunction)(void (*)(void))part_of, METH_FASTCALL,
     PyDoc_STR("That of 16 parts that is a key's, as `sixteenth_of` says.")},
    {NULL, NULL, 0, NULL},
};

static int
prepare(PyObject *module)
{
    PyObject statically_allocated[] = {PyObject_HEAD_INIT(&SectionLock_Type)};
    for (int n = 0; n < SHARED; n++) { /* never freed, and no references are counted */
        shared[n].lock.ob_base = statically_allocated[0];
    }
    return PyModule_AddType(module, &SectionLock_Type);
}

static PyModuleDef_Slot slots[] = {
    {Py_mod_exec, prepare},
    {Py_mod_multiple_interpreters, Py_MOD_MULTIPLE_INTERPRETERS_NOT_SUPPORTED},
    {Py_mod_gil, Py_MOD_GIL_NOT_USED},
    {0, NULL},
};

static struct PyModuleDef module = {
    PyModuleDef_HEAD_INIT,
    .m_name = "_purgatory_cpython._sections",
    .m_doc = PyDoc_STR("What stands in for the interpreter lock."),
    .m_size = 0,
    .m_methods = methods,
    .m_slots = slots,
};

PyMODINIT_FUNC
PyInit__sections(void)
{
    return PyModuleDef_Init(&module);
}
