"""SerializationMixin: sends and receives strings, JSON and pickles, in the socket's thread."""

from collections.abc import Callable, Sequence
from typing import Any


class SerializationMixin:
    """Sends and receives objects through serializers."""

    send: Any
    send_multipart: Any
    recv: Any
    recv_multipart: Any

    def send_string(
        self, u: str, flags: int = 0, copy: bool = True, encoding: str = "utf-8", **kwargs: Any
    ) -> Any:
        """Send an encoded string."""
        if not isinstance(u, str):
            raise TypeError("str objects only")
        return self.send(u.encode(encoding), flags=flags, copy=copy, **kwargs)

    def send_pyobj(
        self, obj: object, flags: int = 0, protocol: int | None = None, **kwargs: Any
    ) -> Any:
        """Send a pickled object."""
        import pickle  # noqa: PLC0415 - few programs need it

        return self.send(pickle.dumps(obj, protocol), flags=flags, **kwargs)

    def send_json(self, obj: object, flags: int = 0, **kwargs: Any) -> Any:
        """Send an object as JSON; `kwargs` are for `json.dumps`."""
        import json  # noqa: PLC0415 - few programs need it

        return self.send(json.dumps(obj, **kwargs).encode(), flags=flags)

    def send_serialized(
        self,
        msg: Any,
        serialize: Callable[[Any], Sequence[Any]],
        flags: int = 0,
        copy: bool = True,
        **kwargs: Any,
    ) -> Any:
        """Send the parts that `serialize` makes of `msg`."""
        return self.send_multipart(serialize(msg), flags=flags, copy=copy, **kwargs)

    send_unicode = send_string

    def recv_string(self, flags: int = 0, encoding: str = "utf-8") -> Any:
        """Receive a string."""
        return self._deserialize(self.recv(flags), lambda data: data.decode(encoding))

    def recv_pyobj(self, flags: int = 0) -> Any:
        """Receive a pickled object. Unpickling runs code: only from senders you trust."""
        import pickle  # noqa: PLC0415 - few programs need it

        return self._deserialize(self.recv(flags), pickle.loads)

    def recv_json(self, flags: int = 0, **kwargs: Any) -> Any:
        """Receive JSON; `kwargs` are for `json.loads`."""
        import json  # noqa: PLC0415 - few programs need it

        return self._deserialize(self.recv(flags), lambda data: json.loads(data, **kwargs))

    def recv_serialized(
        self, deserialize: Callable[[Any], Any], flags: int = 0, copy: bool = True
    ) -> Any:
        """Receive what `deserialize` makes of the parts."""
        return self._deserialize(self.recv_multipart(flags=flags, copy=copy), deserialize)

    recv_unicode = recv_string

    def _deserialize(self, received: Any, load: Callable[[Any], Any]) -> Any:
        # A hook: an asynchronous socket has a future here.
        return load(received)
