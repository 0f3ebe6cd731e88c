"""The memory that a server's state takes by estimate, summed over all that it has."""

from purgatory.service.server.memory import (
    PROCESS_BYTES,
    client_bytes,
    held_bytes,
    operation_bytes,
    outcome_bytes,
    reply_bytes,
    session_bytes,
    value_bytes,
)
from purgatory.service.server.records.clients import OutcomeRecord


def naive_memory(state):
    """Return what `state.memory_bytes` should be between two transactions."""
    return (
        PROCESS_BYTES
        + sum(map(_known_bytes, state.known.values()))
        + sum(map(client_bytes, state.clients.by_name))
        + sum(held_bytes(key, len(event.value)) for key, event in state.held.by_key.items())
        + sum(_session_bytes(*item) for item in state.replies._sessions.items())
    )


def _known_bytes(entry):
    if isinstance(entry, OutcomeRecord):
        return outcome_bytes(entry.op_id)
    values = (entry.values or {}).values()
    size = operation_bytes(entry.op_id, entry.kind, entry.keys)
    return size + sum(value_bytes(len(value)) for value in values)


def _session_bytes(name, session):
    frames = session.frames.values()
    return session_bytes(name) + sum(reply_bytes(len(frame)) for frame in frames)
