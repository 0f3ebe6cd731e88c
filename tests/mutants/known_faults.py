"""Known faults: those of CHANGELOG that were in the code once, as mutants that bring them back.

By the mutant's `what`: the words of CHANGELOG.
"""

KNOWN_FAULTS = {
    "acknowledged outcomes are deleted at a clean end": (
        "a closed server forgot operations with acknowledged outcomes"
    ),
    "a client that was away is another one": (
        "an operation that was submitted again was refused as another client's"
    ),
    "an unknown end of a commit is answered by a refusal": (
        "after an error of the disk requests were refused that a restart could find on disk"
    ),
    "two threads that take commands are one too many": (
        "`Purgatory.close` could raise IndexError while another thread was in `step`"
    ),
    "a worker does not know that its machine was suspended": (
        "a worker whose machine had been suspended, or that was cut off from the server and had "
        "asked to keep its leases, began jobs that waited in it though their leases had ended"
    ),
    "a worker takes a lease for kept that it has asked for": (
        "a worker whose machine had been suspended, or that was cut off from the server and had "
        "asked to keep its leases, began jobs that waited in it though their leases had ended"
    ),
    "an end that is sent again is ended again": (
        "The end of a lease that was sent again on a new connection was answered as if the lease "
        "had ended before, though it was on disk"
    ),
}
