"""`/v1/access`: the rights of a request's token."""

from purgatory.service.auth.access import RIGHTS
from purgatory.service.gateway.callers import Caller
from purgatory.service.gateway.endpoint import endpoint
from purgatory.service.gateway.messages import AccessReport


@endpoint("GET", "/v1/access", None, "Look at the token's rights")
async def look(caller: Caller) -> AccessReport:
    """Return the client and the rights of the token; any token may ask."""
    rights = [right for right in RIGHTS if caller.access.has(right)]
    return AccessReport(caller.name, rights, not caller.access.own_only)
