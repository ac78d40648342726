"""The data file: rights, errors, what is kept, several openers, indexes under every query."""

from __future__ import annotations

import os
import resource
import sqlite3
import stat
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from callboard_control.embedded.engine import Engine, EngineError, StorageError
from tests.unit.embedded.engine import tables


def test_what_was_written_is_there_after_reopening(tmp_path: Path) -> None:
    path = tmp_path / "engine.db"
    with Engine(path) as engine:
        tables.create(engine)
        tables.put(engine, {**tables.key("x"), "g": {"S": "g"}, "h": {"N": "1"}})
    with Engine(path) as engine:
        assert tables.get(engine, "x") is not None
        assert len(tables.query(engine, "g = :g", {":g": {"S": "g"}}, IndexName="by-g")) == 1


def test_no_file_of_the_engine_is_readable_by_others(tmp_path: Path) -> None:
    with Engine(tmp_path / "engine.db") as engine:
        tables.create(engine)
        tables.put(engine, tables.key("x"))
        rights = {entry.name: stat.S_IMODE(entry.stat().st_mode) for entry in tmp_path.iterdir()}
    assert set(rights.values()) == {0o600}
    assert "engine.db-wal" in rights


def test_a_missing_folder_is_a_clear_error(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match=r"no/engine\.db.*No such file or directory.*check the folder"):
        Engine(tmp_path / "no" / "engine.db")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_cannot_be_written_is_a_clear_error(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(StorageError, match="Permission denied"):
        Engine(tmp_path / "engine.db")


def test_a_folder_in_place_of_the_file_is_a_clear_error(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="Is a directory"):
        Engine(tmp_path)


def test_a_file_that_is_no_database_is_a_clear_error_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("these are notes, and there are many of them\n" * 100)
    with pytest.raises(StorageError, match=r"notes\.txt.*not a database"):
        Engine(path)
    assert path.read_text().startswith("these are notes")


def test_a_file_of_a_newer_version_is_a_clear_error(tmp_path: Path) -> None:
    path = tmp_path / "engine.db"
    Engine(path).close()
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA user_version = 99")
    connection.close()
    with pytest.raises(StorageError, match="newer version"):
        Engine(path)


def test_a_full_disk_is_a_clear_error_and_leaves_what_was_there(tmp_path: Path) -> None:
    """A file size limit stands for the full disk: the write fails in the same place."""
    script = """
import resource, signal, sys
from callboard_control.embedded.engine import Engine, EngineError
from tests.unit.embedded.engine import tables
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
with Engine(sys.argv[1]) as engine:
    tables.create(engine)
    tables.put(engine, tables.key("before"))
    resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))
    errors = []
    for number in range(20):
        try:
            tables.put(engine, {**tables.key(str(number)), "v": {"S": "x" * 50_000}})
        except EngineError as error:
            errors.append(error)
    assert errors, "the limit was never met"
    print(errors[0].code, errors[0].status, errors[0].message)
    assert tables.get(engine, "before") is not None
"""
    path = tmp_path / "engine.db"
    ended = subprocess.run(
        [sys.executable, "-c", script, str(path)], capture_output=True, text=True, timeout=60, check=False
    )
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.startswith("InternalServerError 500")
    assert str(path) in ended.stdout
    with Engine(path) as engine:
        assert tables.get(engine, "before") is not None
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[0] == resource.RLIM_INFINITY


def test_requests_after_close_are_refused(tmp_path: Path) -> None:
    engine = Engine(tmp_path / "engine.db")
    tables.create(engine)
    engine.close()
    for attempt in (lambda: tables.put(engine, tables.key("x")), lambda: tables.get(engine, "x")):
        with pytest.raises(EngineError, match="is closed"):
            attempt()


def test_an_unknown_synchronous_mode_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="FULL, NORMAL or OFF"):
        Engine(tmp_path / "engine.db", synchronous="fast")


def test_two_engines_on_one_file_see_each_others_tables_and_items(tmp_path: Path) -> None:
    path = tmp_path / "engine.db"
    with Engine(path) as one, Engine(path) as other:
        tables.create(one)
        tables.put(other, tables.key("x"))
        assert tables.get(one, "x") is not None
        one.execute("DeleteTable", {"TableName": tables.NAME})
        with pytest.raises(EngineError, match="ResourceNotFoundException"):
            tables.get(other, "x")
        tables.create(other)
        assert tables.get(one, "x") is None


def test_several_processes_lose_no_increment(tmp_path: Path) -> None:
    path = tmp_path / "engine.db"
    script = """
import sys
from callboard_control.embedded.engine import Engine
from tests.unit.embedded.engine import tables
with Engine(sys.argv[1], synchronous="OFF") as engine:
    for _ in range(100):
        tables.add(engine, "count")
"""
    with Engine(path) as engine:
        tables.create(engine)
        processes = [subprocess.Popen([sys.executable, "-c", script, str(path)]) for _ in range(3)]
        for _ in range(100):
            tables.add(engine, "count")
        assert [process.wait(60) for process in processes] == [0, 0, 0]
        item = tables.get(engine, "count")
    assert item is not None
    assert item["n"] == {"N": "400"}


def test_writers_that_wait_together_are_all_answered(tmp_path: Path) -> None:
    with Engine(tmp_path / "engine.db") as engine, ThreadPoolExecutor(32) as pool:
        tables.create(engine)
        list(pool.map(lambda number: tables.add(engine, f"p{number % 5}"), range(400)))
        counts = [tables.get(engine, f"p{number}") for number in range(5)]
    assert [item["n"]["N"] for item in counts if item] == ["80"] * 5


def test_a_refused_write_does_not_refuse_those_that_wait_with_it(tmp_path: Path) -> None:
    with Engine(tmp_path / "engine.db") as engine, ThreadPoolExecutor(16) as pool:
        tables.create(engine)

        def write(number: int) -> str:
            try:
                condition = "attribute_exists(nothing)" if number % 2 else "attribute_not_exists(nothing)"
                tables.add(engine, f"p{number}", ConditionExpression=condition)
            except EngineError as error:
                return error.code
            return "ok"

        results = list(pool.map(write, range(200)))
    assert results == ["ok", "ConditionalCheckFailedException"] * 100


def test_readers_do_not_wait_for_a_writer_of_another_process(tmp_path: Path) -> None:
    path = tmp_path / "engine.db"
    with Engine(path) as engine:
        tables.create(engine)
        tables.put(engine, tables.key("x"))
        blocker = sqlite3.connect(path, isolation_level=None)
        blocker.execute("BEGIN IMMEDIATE")
        done = threading.Event()
        waiting = threading.Thread(target=lambda: (tables.put(engine, tables.key("y")), done.set()))
        waiting.start()
        assert tables.get(engine, "x") is not None
        assert not done.is_set(), "the write waits for the other process"
        blocker.execute("COMMIT")
        blocker.close()
        waiting.join(30)
        assert done.is_set()


def test_an_index_is_scanned_in_pages_without_a_gap(tmp_path: Path) -> None:
    with Engine(tmp_path / "engine.db") as engine:
        tables.create(engine)
        for number in range(10):
            tables.put(
                engine, {**tables.key(f"p{number % 3}", str(number)), "g": {"S": f"g{number % 2}"}, "h": {"N": "1"}}
            )
        tables.put(engine, tables.key("not in the index"))
        seen: list[str] = []
        start: dict[str, object] = {}
        while True:
            page = engine.execute("Scan", {"TableName": tables.NAME, "IndexName": "by-g", "Limit": 3, **start})
            seen += [item["sk"]["S"] for item in page["Items"]]
            if "LastEvaluatedKey" not in page:
                break
            start = {"ExclusiveStartKey": page["LastEvaluatedKey"]}
    assert sorted(seen) == list("0123456789")


@pytest.mark.parametrize("forward", [True, False])
@pytest.mark.parametrize("start", [True, False])
@pytest.mark.parametrize("index", [None, "by-g", "keys-only"])
def test_every_query_searches_by_key_and_sorts_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, index: str | None, start: bool, forward: bool
) -> None:
    """EXPLAIN QUERY PLAN of the very statements the engine runs, taken from SQLite's trace."""
    path = tmp_path / "engine.db"
    statements: list[str] = []
    connect = sqlite3.connect

    def traced(*arguments: object, **more: object) -> sqlite3.Connection:
        connection = connect(*arguments, **more)  # type: ignore[call-overload]  # handed on as they came
        connection.set_trace_callback(statements.append)
        return connection

    monkeypatch.setattr(sqlite3, "connect", traced)
    names = {None: ("pk", "sk", "S"), "by-g": ("g", "h", "N"), "keys-only": ("g", "sk", "S")}[index]
    hash_name, range_name, letter = names
    bounds = {":a": {letter: "1"}, ":b": {letter: "5"}}
    conditions = {
        "": {},
        f" AND {range_name} >= :a": {":a": bounds[":a"]},
        f" AND {range_name} BETWEEN :a AND :b": bounds,
    }
    more: dict[str, object] = {"ScanIndexForward": forward} | ({"IndexName": index} if index else {})
    if start:
        more["ExclusiveStartKey"] = tables.key("p", "3") | {"g": {"S": "p"}, "h": {"N": "3"}}
        for extra in {None: ("g", "h"), "by-g": (), "keys-only": ("h",)}[index]:
            del more["ExclusiveStartKey"][extra]  # type: ignore[attr-defined]  # a dict
    else:
        conditions |= {f" AND {range_name} {sign} :a": {":a": bounds[":a"]} for sign in ("=", "<")}
    with Engine(path) as engine:
        tables.create(engine)
        for number in range(10):
            tables.put(engine, {**tables.key("p", str(number)), "g": {"S": "p"}, "h": {"N": str(number)}})
        statements.clear()
        for condition, values in conditions.items():
            tables.query(engine, f"{hash_name} = :p{condition}", {":p": {"S": "p"}, **values}, **more)
    selects = [sql for sql in statements if "ORDER BY" in sql]
    assert len(selects) == len(conditions)
    connection = connect(path)
    for sql in selects:
        plan = [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {sql}")]
        assert len(plan) == 1, (sql, plan)
        assert plan[0].startswith("SEARCH"), (sql, plan)
        if start:
            assert ">" in plan[0] or "<" in plan[0], f"the page does not begin at its start key: {plan}"
    connection.close()
