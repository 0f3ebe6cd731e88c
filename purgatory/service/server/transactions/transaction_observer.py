"""TransactionObserver: sees each transaction of a server, in order.

A model beside the server compares its answers. Thread with the store.
"""

from collections.abc import Sequence
from typing import Protocol

from purgatory.errors import StoreError
from purgatory.service.server.commands import ClientCommand, NetworkCommand, TransactionReplies
from purgatory.service.server.transactions.transaction import Transaction


class TransactionObserver(Protocol):
    """Sees a store loop's transactions; changes nothing, and raises nothing."""

    def begun(self, transaction: Transaction) -> None:
        """Note a new transaction, in which due operations have expired."""

    def handled(self, transaction: Transaction, command: ClientCommand) -> None:
        """Note a command that a transaction has handled."""

    def prepared(self, transaction: Transaction) -> None:
        """Note that the changes are complete, before the commit."""

    def ended(
        self,
        transaction: Transaction,
        error: StoreError | None,
        answer: TransactionReplies | None,
    ) -> None:
        """Note the end of a commit, and what the network thread sends.

        After a fatal error the changes may be on disk or not, without an answer. The commits of a
        server's start have not begun.
        """

    def paused(self, until_ms: int) -> None:
        """Note that nothing expires before `until_ms`; 0: due operations expire.

        Called after each transaction without a failed commit.
        """

    def read(self, answers: Sequence[NetworkCommand]) -> None:
        """Note the answers to reads."""
