"""Value: a value of a program in a message.

On the wire it is MessagePack that the server does not look inside, a `msgspec.Raw`. A client
decodes it in its place, before it hands the message on.
"""

from typing import TYPE_CHECKING, Any, TypeAlias

from msgspec import Raw

if TYPE_CHECKING:
    Value: TypeAlias = Any
else:
    Value = Raw
