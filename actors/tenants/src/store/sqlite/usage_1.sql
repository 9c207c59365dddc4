-- Numbers stand for keys and labels, so that a row of usage is short.
CREATE TABLE key (
    number INTEGER PRIMARY KEY, id BLOB NOT NULL UNIQUE, tenant BLOB, last_used INTEGER NOT NULL
) STRICT;
CREATE INDEX key_tenant ON key (tenant);
CREATE TABLE label (number INTEGER PRIMARY KEY, text TEXT NOT NULL UNIQUE) STRICT;

-- at: minutes, hours or days since the Unix epoch. latency_N: requests in the bucket N.
CREATE TABLE minute (
    at INTEGER, key INTEGER, method INTEGER, outcome INTEGER,
    requests INTEGER NOT NULL, units INTEGER NOT NULL, bytes_in INTEGER NOT NULL,
    bytes_out INTEGER NOT NULL, sessions INTEGER NOT NULL, notifications INTEGER NOT NULL,
    latency_0 INTEGER NOT NULL, latency_1 INTEGER NOT NULL, latency_2 INTEGER NOT NULL,
    latency_3 INTEGER NOT NULL, latency_4 INTEGER NOT NULL, latency_5 INTEGER NOT NULL,
    latency_6 INTEGER NOT NULL, latency_7 INTEGER NOT NULL,
    PRIMARY KEY (at, key, method, outcome)
) STRICT, WITHOUT ROWID;
CREATE TABLE hour (
    at INTEGER, key INTEGER, method INTEGER, outcome INTEGER,
    requests INTEGER NOT NULL, units INTEGER NOT NULL, bytes_in INTEGER NOT NULL,
    bytes_out INTEGER NOT NULL, sessions INTEGER NOT NULL, notifications INTEGER NOT NULL,
    latency_0 INTEGER NOT NULL, latency_1 INTEGER NOT NULL, latency_2 INTEGER NOT NULL,
    latency_3 INTEGER NOT NULL, latency_4 INTEGER NOT NULL, latency_5 INTEGER NOT NULL,
    latency_6 INTEGER NOT NULL, latency_7 INTEGER NOT NULL,
    PRIMARY KEY (at, key, method, outcome)
) STRICT, WITHOUT ROWID;
CREATE TABLE day (
    at INTEGER, key INTEGER, method INTEGER, outcome INTEGER,
    requests INTEGER NOT NULL, units INTEGER NOT NULL, bytes_in INTEGER NOT NULL,
    bytes_out INTEGER NOT NULL, sessions INTEGER NOT NULL, notifications INTEGER NOT NULL,
    latency_0 INTEGER NOT NULL, latency_1 INTEGER NOT NULL, latency_2 INTEGER NOT NULL,
    latency_3 INTEGER NOT NULL, latency_4 INTEGER NOT NULL, latency_5 INTEGER NOT NULL,
    latency_6 INTEGER NOT NULL, latency_7 INTEGER NOT NULL,
    PRIMARY KEY (at, key, method, outcome)
) STRICT, WITHOUT ROWID;
