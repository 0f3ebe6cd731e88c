/* A pipe whose wake-ups go through its reader's mailbox, and a second sender to that mailbox.
 *
 *   spin -a ypipe_mailbox.pml && gcc -DSAFETY -o pan pan.c && ./pan
 *
 * Processes: the pipe's writer (write, flush, send when the reader sleeps), another thread that
 * sends commands and may be interrupted once, and the reader, which reads the pipe while that
 * is active and else receives.  Each step is one access to something shared; docs/design.md
 * maps them to mq/queues/ypipe.py and mq/queues/mailbox.py.
 *
 * Checked: every message and every command arrives once and in order, and a sleeping pipe is woken
 * once (the assertions); no process sleeps for ever while something is under way (pan reports that as
 * an invalid end state).
 *
 * -DBROKEN=n, n from 1 to 8, breaks one step; pan must then find an error.
 */

#ifndef BROKEN
#define BROKEN 0
#endif
#ifndef MESSAGES
#define MESSAGES 2
#endif
#ifndef COMMANDS
#define COMMANDS 2
#endif

#define ASLEEP 255          /* YPipe._c is -1 */
#define ACTIVATE_READ 1     /* the command ActivateRead: the pipe can be read again */
#define OTHER 2             /* the second sender's commands: OTHER, OTHER + 1, ... */

/* The pipe.  Its values are their positions: all that matters is how far the reader may go. */
byte c = 0;                 /* YPipe._c */
bit lock = 0;               /* YPipe._lock */
byte back = 0;              /* YQueue._back */

/* The mailbox. */
chan queue = [MESSAGES + COMMANDS] of { byte };   /* Mailbox._queue */
byte sleeps = 1;            /* Mailbox._sleeps */
byte signalled = 0;         /* Mailbox._signalled */
bit signal = 0;             /* the Signaler: signals merge */

/* What the assertions ask. */
byte posted = 0;            /* commands of the second sender in the mailbox, or through it */
byte activations = 0;       /* wake-ups under way */

inline acquire() { atomic { lock == 0; lock = 1 } }
inline release() { lock = 0 }

/* An interrupt may come here, if `cuts` are left. */
inline interruptible()
{
    if
    :: cuts > 0 -> cuts--; goto cut
    :: true
    fi
}

/* YPipe.flush; `awake` is what it returns. */
inline flush()
{
#if BROKEN != 1
    acquire();
#endif
#if BROKEN == 2
    c = f;
    awake = (c != ASLEEP);
#else
    awake = (c != ASLEEP);
    c = f;
#endif
#if BROKEN != 1
    release();
#endif
    w = f
}

/* Mailbox.send; the caller's `cut:` comes after it. */
inline send(command)
{
    interruptible();
#if BROKEN == 4
    sleep = sleeps;
    interruptible();
#endif
    atomic { queue ! command; posted = posted + (command >= OTHER) }
    interruptible();
#if BROKEN != 4
    sleep = sleeps;
    interruptible();
#endif
    if
    :: signalled != sleep ->
        interruptible();
#if BROKEN == 5
        signalled = sleep;
        interruptible();
        signal = 1
#else
        signal = 1;
        interruptible();
        signalled = sleep
#endif
    :: else
    fi
}

/* `_sleeps += 1` and Mailbox._recheck: out of the loop around it if there is a command. */
inline count_sleep_and_recheck()
{
#if BROKEN != 7
    sleeps++;
#endif
#if BROKEN != 8
    if
    :: nempty(queue) -> break
    :: empty(queue)
    fi;
#endif
#if BROKEN == 7
    sleeps++
#else
    skip
#endif
}

/* Mailbox._wait */
inline wait()
{
    do
    :: true ->
        count_sleep_and_recheck();
        atomic { signal == 1; signal = 0 }      /* Signaler.wait_and_clear */
#if BROKEN == 8
        ; if :: nempty(queue) -> break :: empty(queue) fi
#endif
    od
}

/* Mailbox._wait_until; that the deadline passes is left out. */
inline wait_until()
{
    do
    :: true ->
#if BROKEN == 6
        sleeps++;
        signal = 0;
        if
        :: nempty(queue) -> break
        :: empty(queue)
        fi;
#else
        signal = 0;
        count_sleep_and_recheck();
#endif
        signal == 1;                            /* Signaler.wait */
        if
        :: nempty(queue) -> break
        :: empty(queue)
        fi
    od
}

proctype Writer()
{
    byte w = 0;             /* YPipe._w */
    byte f = 0;             /* YPipe._f */
    byte sleep;
    byte cuts = 0;
    bit awake;

    do
    :: f < MESSAGES ->
        back++;             /* write */
        f = back;
        if
        :: f < MESSAGES     /* and write another before the flush */
        :: true ->
            flush();
            if
            :: !awake ->
                activations++;
                assert(activations == 1);
                send(ACTIVATE_READ)
            :: else
            fi
        fi
    :: else -> break
    od;
    assert(w == MESSAGES);
cut:
    skip
}

proctype Sender()
{
    byte number = 0;
    byte sleep;
    byte cuts = 1;

    do
    :: number < COMMANDS ->
        if
        :: number == COMMANDS - 1 -> cuts = 0      /* after the interrupt, one more send */
        :: else
        fi;
        send(OTHER + number);
cut:
        number++
    :: else -> break
    od
}

proctype Reader()
{
    byte front = 0;         /* YQueue._front */
    byte r = 0;             /* YPipe._r */
    bit in_active = 1;      /* Pipe._in_active */
    bit readable;
    byte command;
    byte last = 0;          /* the latest of the second sender's commands */
    byte received = 0;      /* how many of them */

    do
    :: front == MESSAGES && last == OTHER + COMMANDS - 1 -> break
    :: else ->
        if
        :: in_active ->                     /* YPipe.check_read and YPipe.read */
            readable = 1;
            if
            :: front != r
            :: else ->
                acquire();
                if
                :: c == ASLEEP || c == front ->
#if BROKEN == 3
                    release();
                    c = ASLEEP;
#else
                    c = ASLEEP;
                    release();
#endif
                    readable = 0
                :: else ->
                    r = c;
                    release()
                fi
            fi;
            if
            :: readable ->
                assert(front < r && r <= back);     /* nothing is read that was not written */
                front++
            :: else -> in_active = 0
            fi
        :: !in_active ->                    /* Mailbox.recv */
            if
            :: nempty(queue)
            :: empty(queue) -> wait()       /* for ever */
            :: empty(queue) -> wait_until()
            fi;
            queue ? command;
            if
            :: command == ACTIVATE_READ -> activations--; in_active = 1
            :: else ->
                assert(command > last);
                last = command;
                received++
            fi
        fi
    od;
    assert(received == posted);
    assert(len(queue) == activations)
}

init
{
    atomic { run Writer(); run Sender(); run Reader() }
}
