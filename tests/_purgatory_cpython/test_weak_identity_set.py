"""WeakIdentitySet: members are told apart by identity, and kept alive by others."""

from _purgatory_cpython.weak_identity_set import WeakIdentitySet


class Equal:
    """Equal to everything, and so without a hash."""

    def __eq__(self, other):
        return True


def test_members_that_are_equal_and_have_no_hash():
    """Each is a member, once."""
    members, found = [Equal(), Equal()], WeakIdentitySet()
    for member in [*members, members[0]]:
        found.add(member)
    assert [id(member) for member in found] == [id(member) for member in members]


def test_a_member_is_removed():
    """By identity; what is no member may be removed, too."""
    first, second, found = Equal(), Equal(), WeakIdentitySet()
    found.add(first)
    for member in (second, first, first):
        found.discard(member)
    assert not list(found)


def test_a_dropped_member_is_gone():
    """The set keeps nothing alive."""
    found = WeakIdentitySet()
    found.add(Equal())
    assert not list(found)


def test_members_that_come_and_go_while_one_iterates():
    """The members of the beginning are met."""
    first, second, found = Equal(), Equal(), WeakIdentitySet()
    found.add(first)
    for member in found:
        found.add(second)
        assert member is first
    found.clear()
    assert not list(found)
