"""An exact model beside the server of a world: it executes the same requests, naively."""
