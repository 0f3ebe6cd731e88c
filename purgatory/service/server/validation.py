"""RequestValidator: compares requests with the limits, and says why one is refused.

Immutable; any thread.
"""

from typing import Final

from msgspec import Raw

from _purgatory_cpython.mypyc_types import i64
from purgatory.service.config import Config
from purgatory.service.encoding import count_items
from purgatory.service.errors import (
    Malformed,
    Refused,
    TimeoutTooLong,
    TooLarge,
    TooManyItems,
    TooManyKeys,
    TooManyPending,
)
from purgatory.service.job_messages import PRIORITIES
from purgatory.service.nesting import MAX_LEVELS, is_too_deep
from purgatory.service.protocol import (
    MADE_UP,
    RESERVED,
    Completion,
    KeyFailure,
    Limits,
    Submission,
    SubmissionOptions,
    own_key,
)
from purgatory.service.server.records.clients import ClientRecord
from purgatory.service.store.rows import Options

#: The longest period: ten years.
MOST_PERIOD_MS: Final = 10 * 366 * 86_400_000
#: The fields of a `Submission`, read at once: each access is a call.
SubmissionFields = tuple[str, tuple[str, ...], int, int, str, Raw, SubmissionOptions | None]
#: Without options.
SubmissionValues = tuple[str, tuple[str, ...], int, int, str, Raw]


class RequestValidator:
    """Compares with `limits`. Methods return or raise Refused."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self._pending_per_client: i64 = limits.pending_per_client
        self._pending: i64 = limits.pending
        self._timeout_ms: i64 = limits.timeout_ms
        self._payload_bytes: i64 = min(limits.payload_bytes, MAX_LEVELS)  # none can be too deep
        # So many characters always fit: none has over four bytes in UTF-8.
        self._safe_length: i64 = limits.text_bytes // 4

    def check_submission(
        self,
        submission: Submission,
        values: SubmissionValues,
        client: ClientRecord,
        total: i64,
        options: Options | None = None,
    ) -> Refused | None:
        """Return why an operation is refused, if so.

        `values`, `options`: of `submission`, with times resolved.
        `total`: what counts towards the server's limit.
        """
        op_id, keys, timeout_ms, need, kind, payload = values
        is_common = (
            client.count < self._pending_per_client
            and total < self._pending
            and 0 <= timeout_ms <= self._timeout_ms
            and need == 1
            and len(payload) <= self._payload_bytes
            and len(keys) == 1
            and 0 < len(keys[0]) <= self._safe_length
            and not keys[0].startswith(RESERVED)
            and 0 < len(op_id) <= self._safe_length
            and len(kind) <= self._safe_length
        )
        try:
            if not is_common:
                self._slow_check(submission, client, total)
            if options is not None:
                self._check_options(values, options)
        except Refused as refusal:
            return refusal
        return None

    def _slow_check(self, submission: Submission, client: ClientRecord, total: int) -> None:
        limits = self.limits
        if client.count >= limits.pending_per_client:
            raise TooManyPending(
                f"client {client.name!r} has {client.count} operations and unacknowledged "
                f"outcomes; expected at most {limits.pending_per_client}"
            )
        if total >= limits.pending:
            raise TooManyPending(
                f"the server has {total} operations; expected at most {limits.pending}"
            )
        self.check_timeout(submission.timeout_ms, "timeout" if submission.need else "delay")
        self.check_value("payload", submission.payload)
        self._check_keys(submission)
        self.check_text(submission.op_id)
        for key in submission.keys:
            if submission.need or key != own_key(submission.op_id):
                self._check_key(key)
        self.check_text(submission.kind, empty=True)

    def _check_options(self, values: SubmissionValues, options: Options) -> None:
        _, _, timeout_ms, need, _, _ = values
        within_ms = options.start_within_ms
        self.check_timeout(timeout_ms, "delay")
        if need and (options.tags or options.priority or within_ms is not None):
            raise Malformed("tags, priority and start_within_ms are for jobs only (need 0)")
        if options.priority not in PRIORITIES:
            raise Malformed(f"priority is {options.priority}; expected -10 to 10")
        if within_ms is not None:
            self.check_timeout(within_ms, "start_within")
        if options.unique_ms != MADE_UP:
            self.check_period(options.unique_ms, "unique_for")
        self.check_tags(options.tags)

    def check_tags(self, tags: tuple[str, ...]) -> None:
        """Check the tags of a job."""
        if len(tags) > self.limits.keys:
            raise TooManyItems(f"{len(tags)} tags; expected at most {self.limits.keys}")
        for tag in tags:
            self.check_text(tag)

    def check_timeout(self, timeout_ms: int, what: str = "timeout") -> None:
        """Check a time limited as timeouts; errors are in seconds."""
        if timeout_ms < 0:
            raise Malformed(f"{what} is {timeout_ms / 1000} s; expected 0 or more")
        most = self.limits.timeout_ms
        if timeout_ms > most:
            raise TimeoutTooLong(
                f"{what} is {timeout_ms / 1000} s; expected at most {most / 1000} s (max_timeout)"
            )

    def check_period(self, period_ms: int, what: str, least_ms: int = 0) -> None:
        """Check a period of an id, a lease, a wait, or a retry.

        `max_timeout` is no bound: defaults may exceed it.
        """
        if period_ms < least_ms:
            raise Malformed(f"{what} is {period_ms / 1000} s; expected {least_ms / 1000} s or more")
        if period_ms > MOST_PERIOD_MS:
            most = MOST_PERIOD_MS // 1000
            raise TimeoutTooLong(f"{what} is {period_ms / 1000} s; expected at most {most} s")

    def _check_keys(self, submission: Submission) -> None:
        keys = submission.keys
        if len(keys) > self.limits.keys:
            raise TooManyKeys(f"{len(keys)} keys; expected at most {self.limits.keys}")
        distinct = len(set(keys))
        if not 0 <= submission.need <= distinct or not distinct:
            raise Malformed(
                f"need is {submission.need}; expected 1 to {distinct}, the distinct keys, or 0"
            )

    def _check_key(self, key: str) -> None:
        self.check_text(key)
        if key.startswith(RESERVED):
            raise Malformed(f"key {shown(key)} begins with NUL, as only keys of the server do")

    def check_message(self, frame: bytes) -> None:
        """Check a message's size, and its number of items."""
        most = self.limits.message_bytes
        if len(frame) > most:
            raise TooLarge(f"message of {len(frame)} bytes; expected at most {most}")
        most = self.limits.items
        # An item takes at least a byte.
        if 0 < most < len(frame) and (count := count_items(frame)) > most:
            raise TooManyItems(f"a request with {count} items; expected at most {most}")

    def check_completion(self, completion: Completion) -> None:
        """Check the completion of a key."""
        self.check_value("value", completion.value)
        self._check_key(completion.key)
        limit = completion.limit
        if limit is not None and limit < 1:
            raise Malformed(f"limit is {limit}; expected 1 or more")
        if completion.hold_ms:
            self.check_timeout(completion.hold_ms, "hold")

    def check_failure(self, failure: KeyFailure) -> None:
        """Check the failure of a key."""
        message = failure.message
        self._check_size("message", len(message if message.isascii() else message.encode()))
        self.check_text(failure.error_type)
        self._check_key(failure.key)

    def check_value(self, what: str, value: Raw) -> None:
        """Check the size and the nesting of a program's value."""
        self._check_size(what, len(value))
        if is_too_deep(value):
            raise Malformed(f"{what} is nested too deeply; expected at most {MAX_LEVELS} levels")

    def _check_size(self, what: str, size: int) -> None:
        most = self.limits.payload_bytes
        if size > most:
            raise TooLarge(f"{what} of {size} bytes; expected at most {most}")

    def check_text(self, text: str, *, empty: bool = False) -> None:
        """Check an id, key or name; `empty`: may be empty."""
        most = self.limits.text_bytes
        if not text and not empty:
            raise Malformed("an id, key or name is empty; expected a text")
        if len(text) > most or (not text.isascii() and len(text.encode()) > most):
            raise TooLarge(f"{shown(text)} has more than {most} bytes")


def shown(text: str) -> str:
    """Return a text as errors quote it."""
    return repr(text if len(text) <= 50 else text[:47] + "...")


def limits_of(config: Config) -> Limits:
    """Return a configuration's limits."""
    return Limits(
        message_bytes=config.max_message_bytes,
        keys=config.max_keys,
        text_bytes=config.max_text_bytes,
        payload_bytes=config.max_payload_bytes,
        pending_per_client=config.max_pending_per_client,
        pending=config.max_pending,
        timeout_ms=int(config.max_timeout * 1000),
        held=config.max_held,
        items=config.max_items,
    )
