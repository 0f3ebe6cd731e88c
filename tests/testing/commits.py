"""Which statements commit, for connections that watch them."""


def commits(connection, sql):
    """Tell whether a statement, before it is run, ends a transaction that writes.

    One outside of a transaction is one by itself.
    """
    return sql == "COMMIT" or (sql.startswith("INSERT") and not connection.in_transaction)
