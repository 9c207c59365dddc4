CREATE TABLE state (id INTEGER PRIMARY KEY CHECK (id = 1), checksum INTEGER NOT NULL) STRICT;
INSERT INTO state VALUES (1, 0);

CREATE TABLE tenant (
    id BLOB PRIMARY KEY, owner BLOB, record TEXT NOT NULL, checksum INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
-- owner: the tenant.
CREATE TABLE key (
    id BLOB PRIMARY KEY, owner BLOB NOT NULL, record TEXT NOT NULL, checksum INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE account (
    id TEXT PRIMARY KEY, owner BLOB, record TEXT NOT NULL, checksum INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
-- id: the digest of the cookie; owner: the account.
CREATE TABLE login (
    id BLOB PRIMARY KEY, owner TEXT NOT NULL, record TEXT NOT NULL, checksum INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE token (
    id TEXT PRIMARY KEY, owner BLOB, record TEXT NOT NULL, checksum INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE audit (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    at INTEGER NOT NULL,
    author TEXT NOT NULL,
    author_name TEXT,
    address TEXT,
    verb TEXT NOT NULL,
    tenant BLOB,
    key BLOB,
    detail TEXT NOT NULL
) STRICT;
CREATE INDEX audit_tenant ON audit (tenant) WHERE tenant IS NOT NULL;
CREATE INDEX audit_key ON audit (key) WHERE key IS NOT NULL;
