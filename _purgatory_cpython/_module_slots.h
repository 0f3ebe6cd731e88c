/* How a module says that it needs no interpreter lock, and works in every interpreter.
 *
 * Each is a slot of a module's table, and nothing for a Python that does not know it.
 */
#ifdef Py_mod_multiple_interpreters /* since 3.12 */
#define SLOT_EVERY_INTERPRETER {Py_mod_multiple_interpreters, Py_MOD_PER_INTERPRETER_GIL_SUPPORTED},
#else
#define SLOT_EVERY_INTERPRETER
#endif
#ifdef Py_mod_gil /* since 3.13 */
#define SLOT_NO_GIL {Py_mod_gil, Py_MOD_GIL_NOT_USED},
#else
#define SLOT_NO_GIL
#endif
