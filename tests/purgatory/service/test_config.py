"""Settings come from four places; errors name the place and the value."""

import re
from pathlib import Path

import pytest

from purgatory.service import Config, ConfigError
from purgatory.service.config import host_and_port


@pytest.fixture
def toml(tmp_path):
    def write(text):
        path = tmp_path / "purgatory.toml"
        path.write_text(text)
        return path

    return write


def test_defaults():
    """The defaults are those of the documentation."""
    config = Config.load(environment={})
    assert config == Config()
    assert config.bind == "tcp://127.0.0.1:7411"
    assert config.http_bind == "127.0.0.1:7412"
    assert config.data_dir == Path("purgatory-data")
    assert config.keys_dir == Path("purgatory-data/keys")
    assert config.journal_dir == Path("purgatory-data/journal")
    assert config.database == Path("purgatory-data/purgatory.db")
    assert Config(memory=True).database is None


def test_the_order_of_places(toml):
    """Flags override the environment, that overrides the file, that the defaults."""
    file = toml("max_keys = 1\nmax_clients = 1\nretention = 1\nmemory = true\ndata_dir = '/a'")
    environment = {"PURGATORY_MAX_KEYS": "2", "PURGATORY_RETENTION": "2.5", "PURGATORY_OTHER": "?"}
    config = Config.load({"max_keys": "3", "bind": None}, file=file, environment=environment)
    assert (config.max_keys, config.retention, config.max_clients) == (3, 2.5, 1)
    assert config.memory
    assert (config.data_dir, config.keys_dir) == (Path("/a"), Path("/a/keys"))


def test_the_environment_may_name_the_file(toml):
    """PURGATORY_CONFIG names the TOML file."""
    file = toml("max_keys = 7")
    assert Config.load(environment={"PURGATORY_CONFIG": str(file)}).max_keys == 7


@pytest.mark.parametrize("text", ["1", "true", "Yes", "on"])
def test_truths(text):
    """Booleans in the environment have several spellings."""
    assert Config.load(environment={"PURGATORY_MEMORY": text}).memory
    assert not Config.load(environment={"PURGATORY_MEMORY": "no"}).memory


def test_durations(toml):
    """A duration is a number of seconds, or a text with units, in each place."""
    file = toml("retention = '7d'\nclose_timeout = 20\nmax_timeout = 'P30D'")
    environment = {"PURGATORY_JOURNAL_SECONDS": "1m30s"}
    config = Config.load({"close_timeout": "500ms"}, file=file, environment=environment)
    assert config.retention == 7 * 86400
    assert config.max_timeout == 30 * 86400
    assert config.journal_seconds == 90
    assert config.close_timeout == 0.5


@pytest.mark.parametrize(
    ("flags", "environment", "message"),
    [
        ({"max_keys": "0"}, {}, "--max-keys is 0; expected a whole number, 1 to 9007199254740992"),
        ({"max_keys": "many"}, {}, "--max-keys is 'many'; expected a whole number"),
        (
            {"retention": "nan"},
            {},
            "--retention is 'nan'; expected a duration",
        ),
        ({}, {"PURGATORY_RETENTION": "-1"}, "_RETENTION is -1.0; expected a duration"),
        ({"retention": "7 days"}, {}, "--retention is '7 days'; expected a duration"),
        ({"data_dir": ""}, {}, "--data-dir is empty; expected a path"),
        ({"bind": "\udcff"}, {}, "--bind has a character that is not UTF-8; expected a text"),
        (
            {},
            {"PURGATORY_STORE": "postgresql://u:\udcff@h/d"},
            "_STORE has a character that is not",
        ),
        ({}, {"PURGATORY_DATA_DIR": ""}, "PURGATORY_DATA_DIR is empty; expected a path"),
        ({}, {"PURGATORY_MEMORY": "maybe"}, "PURGATORY_MEMORY is 'maybe'; expected true or false"),
    ],
)
def test_bad_values(flags, environment, message):
    """The error names the value, its place and what is expected."""
    with pytest.raises(ConfigError, match=re.escape(message)):
        Config.load(flags, environment=environment)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("max_keys = 'x'", "max_keys is 'x'; expected a whole number"),
        ("max_keys = true", "max_keys is true"),
        ("memory = 1", "memory is 1; expected true or false"),
        ("retention = '1x'", "retention is '1x'; expected a duration"),
        ("retention = true", "retention is true; expected a duration"),
        ("bind = 5", "bind is 5; expected a text"),
        ("data_dir = 5", "data_dir is 5; expected a path"),
        ('data_dir = "a\\u0000"', "data_dir has a null character; expected a path"),
        ('bind = "a\\u0000"', "bind has a null character; expected a text"),
        ("max_kees = 5", "max_kees is not a setting; expected one of data_dir"),
        ("max_keys =", "not TOML"),
    ],
)
def test_bad_files(toml, text, message):
    """The error names the file, and what is wrong in it."""
    with pytest.raises(ConfigError, match=rf"purgatory\.toml: {message}"):
        Config.load(file=toml(text), environment={})


def test_a_file_that_is_not_there(tmp_path):
    """The error names it."""
    with pytest.raises(ConfigError, match=r"nothing\.toml: No such file"):
        Config.load(file=tmp_path / "nothing.toml", environment={})


def test_in_the_program():
    """Values in a program are checked likewise."""
    with pytest.raises(ConfigError, match="max_clients is 0"):
        Config(max_clients=0)
    with pytest.raises(ConfigError, match="data_dir is 5; expected a path"):
        Config(data_dir=5)
    with pytest.raises(ConfigError, match="retention is '7 weeks'; expected a duration"):
        Config(retention="7 weeks")


def test_texts_in_the_program(monkeypatch):
    """A path and a duration may be texts, as in the file."""
    monkeypatch.setenv("HOME", "/home/ada")
    config = Config(data_dir="~/data", retention="7d")
    assert config.data_dir == Path("/home/ada/data")
    assert config.keys_dir == Path("/home/ada/data/keys")
    assert config.retention == 7 * 86_400


@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_a_file_with_a_mark(tmp_path, mark):
    """The mark that some editors put before UTF-8 is no part of it."""
    file = tmp_path / "purgatory.toml"
    file.write_text(f'{mark}data_dir = "d"\r\nmax_keys = 7\r\n', encoding="utf-8")
    config = Config.load(file=file, environment={})
    assert (config.data_dir, config.max_keys) == (Path("d"), 7)


@pytest.mark.parametrize("place", ["file", "environment", "flag"])
def test_a_home_directory(tmp_path, monkeypatch, place):
    """`~` is that of the user, in each place; another user's has to exist."""
    monkeypatch.setenv("HOME", str(tmp_path))

    def load(path):
        file = tmp_path / "purgatory.toml"
        file.write_text(f'data_dir = "{path}"' if place == "file" else "")
        named = {"PURGATORY_CONFIG": "~/purgatory.toml"}
        if place == "environment":
            named["PURGATORY_DATA_DIR"] = path
        return Config.load({"data_dir": path} if place == "flag" else {}, environment=named)

    assert load("~/data").keys_dir == tmp_path / "data" / "keys"
    with pytest.raises(ConfigError, match="expected a path"):
        load("~no-such-user/data")


@pytest.mark.parametrize("text", [".", "./"])
def test_the_working_directory(tmp_path, monkeypatch, text):
    """It is a directory like others, also for keys; an empty text is the default."""
    monkeypatch.chdir(tmp_path)
    config = Config.load({"keys_dir": text}, environment={})
    assert config.keys_dir == Config(keys_dir=text).keys_dir == tmp_path
    assert Config(keys_dir="").keys_dir == config.data_dir / "keys"


STORE = "postgresql://joe:secret@db1,db2/purgatory"
NO_HTTP_ADDRESS = ("host", "host:", ":80", "h:x", "h:65536", "h:-1", "h:²", "::1", "fe80::1")


def test_a_database_that_servers_share():
    """Then there is no file; and a password is in no text of the settings."""
    config = Config(store=STORE, advertise="tcp://a:7411", bind="tcp://0.0.0.0:7411")
    assert config.database is None
    assert config.journal_dir == config.data_dir / "a_7411" / "journal"
    assert (config.takeover_after, config.partition, config.require_replicated) == (5.0, "", False)
    assert "secret" not in repr(config)
    assert Config.load({"store": STORE, "takeover_after": "2s"}, environment={}).takeover_after == 2


@pytest.mark.parametrize(
    ("bind", "parts"),
    [("127.0.0.1:80", ("127.0.0.1", 80)), ("[::1]:0", ("::1", 0)), ("h:1", ("h", 1))],
)
def test_an_address_for_http(bind, parts):
    """Host and port are split, also of IPv6 in brackets."""
    assert host_and_port(bind) == parts


@pytest.mark.parametrize("bind", ["", *NO_HTTP_ADDRESS])
def test_no_address_for_http(bind):
    """Anything else is a ConfigError."""
    with pytest.raises(ConfigError, match=r"the address for HTTP is .*; expected HOST:PORT"):
        host_and_port(bind)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"store": "mysql://joe:secret@db/x"}, "store is mysql; expected postgresql://"),
        ({"store": "joe:secret"}, "store is no URL; expected postgresql://"),
        ({"store": STORE, "memory": True}, "store and memory are set"),
        ({"store": STORE, "partition": "Orders"}, "partition is 'Orders'; expected"),
        ({"store": STORE, "partition": "o" * 21}, "expected at most 20"),
        ({"store": STORE, "takeover_after": 0.4}, "takeover_after is 0.4; expected at least 0.5"),
        ({"store": STORE, "bind": "tcp://0.0.0.0:7411"}, "expected advertise as well"),
        ({"store": STORE, "bind": "tcp://*:7411"}, "expected advertise as well"),
        ({"store": STORE, "bind": "tcp://[::]:7411"}, "expected advertise as well"),
        *(
            ({"store": STORE, "advertise": address}, "expected the address of this server alone")
            for address in (
                *("a:7411", "tcp://a", "tcp://a:0", "tcp://a:65536", "tcp://0.0.0.0:7411"),
                *("tcp://*:7411", "tcp://a:7411,tcp://b:7411", "http://a:7411", "tcp://a:7411/"),
            )
        ),
        ({"bind": "tcp://127.0.0.1:65536"}, "expected a port of at most 65535"),
        ({"bind": f"tcp://127.0.0.1:{'9' * 5000}"}, "expected a port of at most 65535"),
        ({"http_bind": f"127.0.0.1:{'9' * 5000}"}, "expected HOST:PORT"),
        *(
            ({"http_bind": bind}, f"http_bind is {bind!r}; expected HOST:PORT")
            for bind in ("7412", "0.0.0.0", "0.0.0.0:", "[::]", *NO_HTTP_ADDRESS)
        ),
        *(
            ({"bind": bind}, f"bind is {bind!r}; expected tcp://HOST:PORT or ipc://PATH")
            for bind in ("tcp://0.0.0.0", "tcp://0.0.0.0:", "tcp://[::]", "tcp://:7411")
        ),
        ({"partition": "orders"}, "partition is set; expected a store as well"),
        ({"require_replicated": True}, "require_replicated is set; expected a store as well"),
        ({"advertise": "tcp://a:7411"}, "advertise is set; expected a store as well"),
        ({"takeover_after": 2}, "takeover_after is set; expected a store as well"),
        (
            {"max_payload_bytes": (1 << 20) + 1},
            "max_payload_bytes is 1048577; expected at most max_message_bytes, 1048576",
        ),
        ({"max_text_bytes": 2000, "max_message_bytes": 1000}, "at most max_message_bytes, 1000"),
        *(
            ({"http_hosts": f"a,{name}"}, f"http_hosts has {name!r}; expected names such as")
            for name in ("a/b", "https://a", "a:80", "*.a", "*", "a b", "a@b")
        ),
    ],
)
def test_settings_that_do_not_fit(settings, words):
    """Each says what is expected; a password is not shown."""
    with pytest.raises(ConfigError) as refused:
        Config(**settings)
    assert words in str(refused.value)
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize(
    "settings",
    [
        {"max_message_bytes": 1000},
        {"max_payload_bytes": 1 << 20},
        {"takeover_after": 5},
        {"http_hosts": " jobs.example.org, bücher.example,a_b,[::1],127.0.0.1,"},
    ],
)
def test_settings_that_fit(settings):
    """A message may be smaller than payloads may be by default; names may be addresses."""
    assert Config(**settings)


@pytest.mark.parametrize("setting", ["retention", "max_timeout", "remember_ended"])
@pytest.mark.parametrize("value", [10**400, 1e308, float("inf"), float("nan"), -1], ids=repr)
def test_durations_that_no_server_counts(setting, value):
    """A ConfigError, at once."""
    with pytest.raises(ConfigError, match=f"{setting} is .*; expected a duration of at most ten"):
        Config(memory=True, **{setting: value})


def test_a_request_of_one_repeat_fits():
    """Fewer items are refused: the server could not be asked for a repeat, nor for some jobs."""
    with pytest.raises(ConfigError, match="max_items is 9; expected a whole number, 10 to "):
        Config(memory=True, max_items=9)


@pytest.mark.parametrize(
    ("setting", "least"), [("max_message_bytes", 1000), ("max_text_bytes", 64)]
)
def test_limits_of_a_clients_first_message(setting, least, serve, connect):
    """With the least ones a client gets in; with fewer none would, so they are refused."""
    with pytest.raises(ConfigError, match=f"{setting} is .*; expected a whole number, {least} to "):
        Config(memory=True, **{setting: least - 1})
    assert connect(serve(memory=True, **{setting: least})).complete("k") == 0


@pytest.mark.parametrize(
    ("setting", "least"), [("max_pending", 1), ("max_keys", 1), ("max_message_bytes", 1000)]
)
def test_limits_that_no_message_holds(setting, least):
    """A server with them could not be reached."""
    with pytest.raises(ConfigError, match=f"{setting} is .*; expected a whole number, {least} to "):
        Config(memory=True, **{setting: 10**30})
