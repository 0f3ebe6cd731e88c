"""Each read of a store, with arguments: name -> arguments."""

#: Of `Store`.
READS = {
    "attempts": ([1],),
    "by_numbers": ([1],),
    "deleted_queued": (),
    "held_events": (),
    "job_rows": ([1],),
    "jobs": (),
    "last_event_ms": (0,),
    "last_numbers": (),
    "limits": (),
    "metadata": (),
    "named_leases": (),
    "oldest_submission_ms": (),
    "operations": (),
    "outcomes": (),
    "outcomes_by_seqs": ([1],),
    "outcomes_without_results": (),
    "progress": (),
    "queued_events": (0,),
    "queued_extensions": (0,),
    "queued_jobs": (0,),
    "repeats": (),
    "replies": (),
    "results": ([1],),
    "sizes": ("held",),
    "some_operations": (0, 5),
    "spreads": (),
    "submissions": (),
}
#: Of `RememberedRows`.
REMEMBERED = {"read": ([1],), "due": (1000, 5), "counts": (), "shards": (), "entries": (0,)}
