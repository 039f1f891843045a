"""Statements that try to break out, to break something, or to take for ever; with what becomes of each on each engine.

An outcome is an error class; or "ok"; or "cut", for a result of which rows are left out. The numbers in the names group
the cases by what they try.
"""

from __future__ import annotations

from typing import NamedTuple

from sandlot.envs.sql.backends.database import Column, Database, ForeignKey, Table, TableSchema

PLAYERS = [(1, "Ana", 31), (2, "Bo", 25), (3, "Cy", 25), (4, "Di", None), (5, "Ed", 40)]
GAMES = [(10, "chess"), (11, "go"), (12, "poker")]
PLAYED = [(p, g) for p in range(1, 6) for g in (10, 11, 12)]


def club() -> Database:
    """A database of three small tables."""
    return Database.from_tables(
        "club",
        [
            Table(
                TableSchema("player", (Column("id", "INTEGER"), Column("name"), Column("age", "INTEGER")), ("id",)),
                (*PLAYERS,),
            ),
            Table(TableSchema("game", (Column("id", "INTEGER"), Column("title")), ("id",)), (*GAMES,)),
            Table(
                TableSchema(
                    "played",
                    (Column("player_id", "INTEGER"), Column("game_id", "INTEGER")),
                    (),
                    (
                        ForeignKey(("game_id",), "game", ("id",)),
                        ForeignKey(("player_id",), "player", ("id",)),
                    ),
                ),
                (*PLAYED,),
            ),
        ],
    )


class Case(NamedTuple):
    name: str
    sql: str
    sqlite: str
    postgres: str
    duckdb: str


ENDLESS = "WITH RECURSIVE t(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM t) "
NINE = ", ".join(f"played {letter}" for letter in "abcdefghi")

CASES = [
    Case("0 a plain count", "SELECT count(*) FROM player", "ok", "ok", "ok"),
    Case("1 drop", "DROP TABLE player", "denied", "denied", "denied"),
    Case("2 delete", "DELETE FROM player", "denied", "denied", "denied"),
    Case("2 update", "UPDATE player SET age = 0", "denied", "denied", "denied"),
    Case("2 insert", "INSERT INTO player(id, name) VALUES (99, 'x')", "denied", "denied", "denied"),
    Case("2 returning", "DELETE FROM player RETURNING *", "denied", "denied", "denied"),
    Case("3 delete behind with", "WITH x AS (SELECT 1) DELETE FROM player", "denied", "denied", "denied"),
    Case(
        "3 delete within with",
        "WITH x AS (DELETE FROM player RETURNING *) SELECT * FROM x",
        "syntax",
        "denied",
        "denied",
    ),
    Case("4 temporary table", "CREATE TEMP TABLE x(a INTEGER)", "denied", "denied", "denied"),
    Case(
        "4 trigger",
        "CREATE TRIGGER t AFTER INSERT ON player BEGIN DELETE FROM player; END",
        "denied",
        "multiple_statements",
        "multiple_statements",
    ),
    Case("4 virtual table", "CREATE VIRTUAL TABLE v USING fts5(x)", "denied", "denied", "denied"),
    Case("5 attach a file", "ATTACH DATABASE '/etc/passwd' AS p", "denied", "syntax", "denied"),
    Case("5 attach memory", "ATTACH ':memory:' AS m", "denied", "syntax", "denied"),
    Case("6 vacuum into", "VACUUM INTO '/tmp/leak.db'", "denied", "denied", "denied"),
    Case("6 vacuum", "VACUUM", "denied", "denied", "denied"),
    Case("7 load_extension", "SELECT load_extension('/tmp/x.so')", "denied", "no_such_function", "no_such_function"),
    Case("7 create extension", "CREATE EXTENSION dblink", "syntax", "denied", "denied"),
    Case("7 install", "INSTALL httpfs", "syntax", "denied", "denied"),
    Case("8 readfile", "SELECT readfile('/etc/passwd')", "no_such_function", "no_such_function", "no_such_function"),
    Case("8 writefile", "SELECT writefile('/tmp/w', 'x')", "no_such_function", "no_such_function", "no_such_function"),
    Case("8 pg_read_file", "SELECT pg_read_file('/etc/passwd')", "no_such_function", "denied", "no_such_function"),
    Case("8 lo_import", "SELECT lo_import('/etc/passwd')", "no_such_function", "denied", "no_such_function"),
    Case("8 copy to", "COPY player TO '/tmp/x'", "syntax", "denied", "denied"),
    Case("8 copy to program", "COPY player TO PROGRAM 'id'", "syntax", "denied", "denied"),
    Case("8 read_csv", "SELECT * FROM read_csv('/etc/passwd')", "no_such_table", "no_such_function", "denied"),
    Case("9 pragma writable_schema", "PRAGMA writable_schema = ON", "denied", "syntax", "syntax"),
    Case("9 pragma hard_heap_limit", "PRAGMA hard_heap_limit = 0", "denied", "denied", "denied"),
    Case("9 set timeout", "SET statement_timeout = 0", "syntax", "denied", "denied"),
    Case("9 reset all", "RESET ALL", "syntax", "denied", "denied"),
    Case(
        "9 set_config",
        "SELECT set_config('statement_timeout', '0', false)",
        "no_such_function",
        "denied",
        "no_such_function",
    ),
    Case("10 pragma table_info", "PRAGMA table_info(player)", "ok", "denied", "denied"),
    Case("10 information_schema", "SELECT count(*) FROM information_schema.tables", "no_such_table", "ok", "ok"),
    Case("11 pragma as a table", "SELECT * FROM pragma_table_info('player')", "ok", "no_such_function", "ok"),
    Case("11 database list", "SELECT * FROM pragma_database_list", "denied", "no_such_table", "ok"),
    Case("12 sqlite_master", "SELECT count(*) FROM sqlite_master", "ok", "no_such_table", "ok"),
    Case("12 pg_shadow", "SELECT * FROM pg_shadow", "no_such_table", "denied", "no_such_table"),
    Case("12 pg_database", "SELECT datname FROM pg_database", "no_such_table", "denied", "ok"),
    Case("12 pg_stat_activity", "SELECT query FROM pg_stat_activity", "no_such_table", "denied", "no_such_table"),
    Case("13 endless recursion", ENDLESS + "SELECT count(*) FROM t", "timeout", "timeout", "timeout"),
    Case("14 endless rows", ENDLESS + "SELECT x FROM t", "cut", "cut", "cut"),
    Case("15 cross join", f"SELECT count(*) FROM {NINE}", "timeout", "timeout", "timeout"),
    Case(
        "16 cross join sorted by chance",
        f"SELECT a.game_id FROM {NINE} ORDER BY random()",
        "denied",
        "denied",
        "denied",
    ),
    Case("17 printf", "SELECT length(printf('%.*c', 900000000, 'x'))", "too_big", "no_such_function", "other"),
    Case(
        "17 printf, width in the format",
        "SELECT length(printf('%900000000d', 1))",
        "too_big",
        "no_such_function",
        "too_big",
    ),
    Case("17 format", "SELECT length(format('%.*c', 900000000, 'x'))", "too_big", "type", "ok"),
    Case("17 repeat", "SELECT repeat('x', 1000000000)", "no_such_function", "too_big", "too_big"),
    Case(
        "18 instr",
        "SELECT instr(hex(printf('%.*c', 9999, 'a')), hex(printf('%.*c', 9998, 'a')) || 'b')",
        "too_big",
        "no_such_function",
        "other",
    ),
    Case("19 zeroblob", "SELECT hex(zeroblob(500000000))", "denied", "no_such_function", "no_such_function"),
    Case("19 randomblob", "SELECT length(randomblob(900000000))", "denied", "no_such_function", "no_such_function"),
    Case(
        "20 replace",
        "SELECT length(replace(printf('%.*c', 9999, 'x'), 'x', printf('%.*c', 9999, 'y')))",
        "too_big",
        "no_such_function",
        "other",
    ),
    Case(
        "20 group_concat", ENDLESS + "SELECT length(group_concat(x)) FROM t", "timeout", "no_such_function", "timeout"
    ),
    Case("20 like", "SELECT printf('%.*c', 9999, 'a') LIKE '%a%a%a%a%a%a%a%a%a%b'", "ok", "no_such_function", "other"),
    Case("20 glob", "SELECT printf('%.*c', 9999, 'a') GLOB '*a*a*a*a*a*a*a*a*b'", "ok", "syntax", "other"),
    Case(
        "20 json",
        "SELECT json_array_length('[' || printf('%.*c', 9999, ',') || ']')",
        "type",
        "no_such_function",
        "other",
    ),
    Case("20 long patterns", "SELECT 'a' LIKE '" + "%a" * 150 + "'", "too_big", "ok", "ok"),
    Case(
        "21 two statements",
        "SELECT 1; DROP TABLE player",
        "multiple_statements",
        "multiple_statements",
        "multiple_statements",
    ),
    Case("21 two reads", "SELECT 1; SELECT 2", "multiple_statements", "multiple_statements", "multiple_statements"),
    Case("22 a semicolon", "SELECT 1;", "ok", "ok", "ok"),
    Case("22 a comment", "SELECT 1; -- done", "ok", "ok", "ok"),
    Case("23 nothing", "", "no_statement", "no_statement", "no_statement"),
    Case("23 blank", " \n\t; ", "no_statement", "no_statement", "no_statement"),
    Case("23 a comment only", "-- nothing", "no_statement", "no_statement", "no_statement"),
    Case("23 an open comment", "/* nothing", "no_statement", "syntax", "syntax"),
    Case("24 null character", "SELECT 1\0; DROP TABLE player", "syntax", "syntax", "syntax"),
    Case("24 lone surrogate", "SELECT '\ud800'", "encoding", "encoding", "encoding"),
    Case("25 begin", "BEGIN EXCLUSIVE", "denied", "denied", "denied"),
    Case("25 savepoint", "SAVEPOINT statement", "denied", "denied", "denied"),
    Case("25 release", "RELEASE statement", "denied", "denied", "denied"),
    Case("25 commit", "COMMIT", "denied", "denied", "denied"),
    Case("26 parameter", "SELECT ?", "syntax", "syntax", "other"),
    Case("27 long", "SELECT 1" + " + 1" * 40_000, "too_big", "too_big", "too_big"),
    Case("27 deep", "SELECT " + "(" * 300 + "1" + ")" * 300, "too_big", "too_big", "too_big"),
    Case("27 deeper", "SELECT " + "(" * 3000 + "1" + ")" * 3000, "too_big", "too_big", "too_big"),
    Case("27 unions", " UNION ALL ".join(["SELECT 1"] * 200), "too_big", "ok", "ok"),
    Case("28 quoted name that is none", 'SELECT "nope" FROM player LIMIT 1', "ok", "no_such_column", "no_such_column"),
    Case("28 syntax", "SELEC * FROM player", "syntax", "syntax", "syntax"),
    Case("28 column", "SELECT nope FROM player", "no_such_column", "no_such_column", "no_such_column"),
    Case("28 table", "SELECT * FROM nope", "no_such_table", "no_such_table", "no_such_table"),
    Case("28 function", "SELECT nope(1)", "no_such_function", "no_such_function", "no_such_function"),
    Case("28 ambiguous", "SELECT id FROM player, game", "ambiguous_name", "ambiguous_name", "ambiguous_name"),
    Case("28 overflow", "SELECT sum(9223372036854775807) FROM player", "type", "ok", "ok"),
    Case(
        "29 wide rows",
        "SELECT hex(hex(hex(printf('%.*c', 9999, 'x')))) FROM played a, played b",
        "cut",
        "no_such_function",
        "other",
    ),
    Case("30 pg_sleep", "SELECT pg_sleep(60)", "no_such_function", "denied", "denied"),
    Case("30 do", "DO $$ BEGIN PERFORM pg_sleep(60); END $$", "syntax", "denied", "syntax"),
    Case(
        "30 pg_terminate_backend",
        "SELECT pg_terminate_backend(1)",
        "no_such_function",
        "denied",
        "no_such_function",
    ),
    Case("31 listen", "LISTEN channel", "syntax", "denied", "denied"),
    Case("31 advisory lock", "SELECT pg_advisory_lock(1)", "no_such_function", "denied", "no_such_function"),
    Case("31 declare", "DECLARE c CURSOR FOR SELECT 1", "syntax", "denied", "syntax"),
    Case("31 prepare", "PREPARE p AS SELECT 1", "syntax", "denied", "denied"),
    Case("32 explain", "EXPLAIN QUERY PLAN SELECT * FROM player", "ok", "denied", "denied"),
    Case("32 explain analyze delete", "EXPLAIN ANALYZE DELETE FROM player", "denied", "denied", "denied"),
    Case("33 date('now')", "SELECT date('now')", "ok", "denied", "denied"),
    Case("33 current_timestamp", "SELECT CURRENT_TIMESTAMP", "ok", "denied", "denied"),
    Case("33 now()", "SELECT now()", "no_such_function", "denied", "denied"),
    Case("33 random()", "SELECT random()", "denied", "denied", "denied"),
    # The sizes that the prototype of the guard was tried with.
    Case(
        "16 cross join sorted",
        f"SELECT a.game_id FROM {NINE} ORDER BY a.game_id + i.player_id",
        "timeout",
        "timeout",
        "too_big",  # it sorts in memory, which is full before long
    ),
    Case("17 printf, streamed", "SELECT printf('%.*c', 900000000, 'x')", "too_big", "no_such_function", "other"),
    Case(
        "18 instr of millions",
        "SELECT instr(printf('%.*c',4000000,'a'), printf('%.*c',2000000,'a')||'b')",
        "too_big",
        "no_such_function",
        "other",
    ),
    Case(
        "20 replace of millions",
        "SELECT length(replace(printf('%.*c',7000000,'x'),'x','yyyyyyyyyy'))",
        "too_big",
        "no_such_function",
        "other",
    ),
    Case(
        "20 like of millions",
        "SELECT printf('%.*c',5000000,'a') LIKE '%a%a%a%a%a%a%a%a%a%b'",
        "too_big",
        "no_such_function",
        "other",
    ),
    Case("20 glob of many", "SELECT printf('%.*c',200000,'a') GLOB '*a*a*a*a*a*a*a*a*b'", "too_big", "syntax", "other"),
    Case(
        "20 json of millions",
        "SELECT json_array_length('['||substr(printf('%.*c',6000000,','),1,1)||']')",
        "too_big",
        "no_such_function",
        "other",
    ),
    Case(
        "29 wide rows of millions",
        "SELECT printf('%.*c',7000000,'x') FROM played a, played b",
        "too_big",
        "no_such_function",
        "other",
    ),
    Case("25 savepoint of its own", "SAVEPOINT x", "denied", "denied", "denied"),
    # What PostgreSQL and DuckDB have instead.
    Case("5 attach a server", "ATTACH 'dbname=x' AS p (TYPE postgres)", "syntax", "syntax", "denied"),
    Case("7 load", "LOAD 'httpfs'", "syntax", "denied", "denied"),
    Case(
        "7 dblink",
        "SELECT dblink('dbname=postgres', 'SELECT 1')",
        "no_such_function",
        "no_such_function",
        "no_such_function",
    ),
    Case("8 glob", "SELECT * FROM glob('/etc/*')", "no_such_table", "syntax", "denied"),
    Case("8 a file as a table", "SELECT * FROM '/etc/passwd'", "no_such_table", "syntax", "no_such_table"),
    Case("8 read_text", "SELECT * FROM read_text('/etc/passwd')", "no_such_table", "no_such_function", "denied"),
    Case("8 read_blob", "SELECT content FROM read_blob('/etc/passwd')", "no_such_table", "no_such_function", "denied"),
    Case("8 export", "EXPORT DATABASE '/tmp/x'", "syntax", "syntax", "syntax"),
    Case("8 pg_ls_dir", "SELECT pg_ls_dir('/etc')", "no_such_function", "denied", "no_such_function"),
    Case("9 getenv", "SELECT getenv('HOME')", "no_such_function", "no_such_function", "no_such_function"),
    Case("9 pg_settings", "SELECT count(*) FROM pg_settings", "no_such_table", "denied", "ok"),
    Case("9 secrets", "SELECT count(*) FROM duckdb_secrets()", "no_such_table", "no_such_function", "denied"),
    Case("12 pg_authid", "SELECT * FROM pg_authid", "no_such_table", "denied", "no_such_table"),
    Case(
        "14 a long series",
        "SELECT count(*) FROM generate_series(1, 100000000000)",
        "no_such_table",
        "timeout",
        "timeout",
    ),
    Case("17 lpad", "SELECT length(lpad('x', 900000000, 'y'))", "no_such_function", "too_big", "timeout"),
    Case(
        "17 array_fill",
        "SELECT array_length(array_fill(1, ARRAY[500000000]), 1)",
        "syntax",
        "too_big",
        "no_such_function",
    ),
    Case("17 a long list", "SELECT len(range(2000000000))", "no_such_function", "no_such_function", "too_big"),
    Case(
        "18 strpos", "SELECT strpos(repeat('a', 4000000), repeat('a', 2000000) || 'b')", "no_such_function", "ok", "ok"
    ),
    Case(
        "18 levenshtein",
        "SELECT levenshtein(repeat('a', 300000), repeat('b', 300000))",
        "no_such_function",
        "no_such_function",
        "timeout",
    ),
    Case(
        "20 string_agg",
        ENDLESS + "SELECT length(string_agg(CAST(x AS TEXT), '')) FROM t",
        "no_such_function",
        "timeout",
        "timeout",
    ),
    Case("20 factorial", "SELECT factorial(100000)", "no_such_function", "type", "type"),
    Case(
        "20 a pattern that goes back",
        "SELECT regexp_replace(repeat('a', 200000), '(a*)*(a*)*b', '')",
        "no_such_function",
        "ok",
        "ok",
    ),
    Case(
        "29 wide rows of repeats",
        "SELECT repeat('x', 7000000) FROM played a, played b",
        "no_such_function",
        "timeout",
        "too_big",
    ),
    Case("30 sleep_ms", "SELECT sleep_ms(60000)", "no_such_function", "no_such_function", "timeout"),
    Case("33 a unique number", "SELECT uuidv4()", "no_such_function", "denied", "denied"),
    Case("33 when the server started", "SELECT pg_postmaster_start_time()", "no_such_function", "denied", "denied"),
    Case("33 the transaction's number", "SELECT txid_current()", "no_such_function", "denied", "denied"),
    Case("33 the database's name", "SELECT current_database()", "no_such_function", "denied", "denied"),
    Case("select into", "SELECT * INTO copied FROM player", "syntax", "denied", "denied"),
    Case("create function", "CREATE FUNCTION f() RETURNS int AS 'select 1' LANGUAGE sql", "syntax", "denied", "denied"),
    Case("grant", "GRANT ALL ON player TO PUBLIC", "syntax", "denied", "denied"),
]
