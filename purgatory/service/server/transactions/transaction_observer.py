"""TransactionObserver: sees each transaction of a server, in the order of the server.

A model beside the server executes the same requests and compares the answers. Called by the thread
that has the store. An observer changes nothing, and raises nothing.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from purgatory.errors import StoreError
    from purgatory.service.server.commands import (
        ClientConnected,
        ClientDisconnected,
        ClientRequest,
        NetworkCommand,
        TransactionReplies,
    )
    from purgatory.service.server.transactions.transaction import Transaction


class TransactionObserver(Protocol):
    """Hears of a store loop's transactions."""

    def begun(self, transaction: "Transaction") -> None:
        """Note a new transaction, in which due operations have expired."""

    def handled(
        self,
        transaction: "Transaction",
        command: "ClientRequest | ClientConnected | ClientDisconnected",
    ) -> None:
        """Note the command that a transaction has handled last."""

    def prepared(self, transaction: "Transaction") -> None:
        """Note that the changes of a transaction are complete: the commit comes next."""

    def ended(
        self,
        transaction: "Transaction",
        error: "StoreError | None",
        answer: "TransactionReplies | None",
    ) -> None:
        """Note how the commit has ended, and what the network thread is given to send.

        After a fatal error the changes may be on disk or not; there is no answer then. The commits
        of a server's start have no requests: their transactions end, and have not begun.
        """

    def paused(self, until_ms: int) -> None:
        """Note that nothing expires before `until_ms`; 0: what is due expires.

        Called after each transaction that was committed, or that had nothing to commit.
        """

    def read(self, answers: "Sequence[NetworkCommand]") -> None:
        """Note the answers to requests that change nothing."""
