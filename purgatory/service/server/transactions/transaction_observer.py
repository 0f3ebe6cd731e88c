"""TransactionObserver: sees each transaction of a server, in order.

A model beside the server compares its answers. Called by the thread with the store. An observer
changes nothing, and raises nothing.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from purgatory.errors import StoreError

if TYPE_CHECKING:
    from purgatory.service.server.commands import (
        ClientConnected,
        ClientDisconnected,
        ClientRequest,
        NetworkCommand,
        TransactionReplies,
    )
    from purgatory.service.server.transactions.transaction import Transaction


class TransactionObserver(Protocol):
    """Gets a store loop's transactions."""

    def begun(self, transaction: "Transaction") -> None:
        """Note a new transaction; due operations have expired in it."""

    def handled(
        self,
        transaction: "Transaction",
        command: "ClientRequest | ClientConnected | ClientDisconnected",
    ) -> None:
        """Note the command that a transaction has just handled."""

    def prepared(self, transaction: "Transaction") -> None:
        """Note that a transaction's changes are complete, before the commit."""

    def ended(
        self,
        transaction: "Transaction",
        error: "StoreError | None",
        answer: "TransactionReplies | None",
    ) -> None:
        """Note how the commit has ended, and what the network thread sends.

        After a fatal error the changes may be on disk or not, without an answer. The commits of a
        server's start end without having begun.
        """

    def paused(self, until_ms: int) -> None:
        """Note that nothing expires before `until_ms`; 0: due operations expire.

        Called after each transaction without a failed commit.
        """

    def read(self, answers: "Sequence[NetworkCommand]") -> None:
        """Note the answers to requests that change nothing."""
