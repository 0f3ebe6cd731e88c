"""What libpq gets for each host of a URL."""

import pytest
from psycopg.conninfo import conninfo_to_dict

from purgatory.errors import StoreError
from purgatory.service.store.postgres.sessions.server_addresses import addresses_of, shown_url


def settings(url, **options):
    """Return the settings for each host."""
    return [conninfo_to_dict(one.decode()) for one in addresses_of(url, "name", **options)]


def test_several_hosts():
    """Each is tried by itself; only one that can write will do, and a dead one is given up."""
    found = settings("postgresql://u:p@a,b:5433/d")
    assert [(one["host"], one.get("port") or "") for one in found] == [("a", ""), ("b", "5433")]
    for one in found:
        assert one["target_session_attrs"] == "read-write"
        assert one["application_name"] == "name"
        assert (one["user"], one["password"], one["dbname"]) == ("u", "p", "d")
        assert int(one["keepalives_idle"]) < 60
        assert int(one["tcp_user_timeout"]) < 60_000


def test_what_the_url_says_counts_more():
    """But for the name of the session."""
    [one] = settings(
        "postgresql://a/d?target_session_attrs=any&keepalives_idle=77&application_name=x"
        "&options=-c%20work_mem%3D1MB"
    )
    assert one["target_session_attrs"] == "any"
    assert int(one["keepalives_idle"]) == 77
    assert one["application_name"] == "name"
    assert "statement_timeout" in one["options"]
    assert "work_mem=1MB" in one["options"]
    [bare] = settings("postgresql://a/d", options=False)
    assert "options" not in bare


def test_one_port_for_all_hosts():
    """As libpq has it."""
    assert [int(one["port"]) for one in settings("host=a,b,c port=7 dbname=d")] == [7, 7, 7]


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://a:b:c:d/x?y",
        "postgresql://u:sec%ret@a/d",
        "postgresql://u:secret@[::1/d",
        "postgresql://u:secret@[::1]x/d",
        "postgresql://a/d?password=sec%ret",
        "postgresql://u:secret\udcff@a/d",
    ],
)
def test_not_a_url(url):
    """It is an error in one line, without the password, which libpq quotes."""
    with pytest.raises(StoreError, match=r"the URL of the store: .*; expected") as caught:
        addresses_of(url, "name")
    assert "ret" not in str(caught.value).partition(";")[0]
    assert caught.value.__suppress_context__


def test_what_is_shown():
    """Hosts with their ports, and the database, but no password."""
    for given, shown in (
        ("a,b/d", "a,b/d"),
        ("a:5433/d", "a:5433/d"),
        ("a,b:5433/d", "a,b:5433/d"),
        ("a,b/d?port=5433", "a:5433,b:5433/d"),
        ("[::1]:5433/d", "[::1]:5433/d"),
        ("/d?hostaddr=10.0.0.1", "10.0.0.1/d"),
        ("", "/"),
    ):
        assert shown_url(f"postgresql://u:secret@{given}") == f"postgresql://{shown}"
    for url in ("postgresql://u:secret@a:b:c/d?x", "postgresql://u:secret\udcff@a/d"):
        assert "secret" not in shown_url(url)
