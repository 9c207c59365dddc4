-- chain: the first key of the key's chain of rotations, unless it is the first one itself. What a
-- key used counts for its chain also when the key is removed.
ALTER TABLE key ADD COLUMN chain BLOB;
CREATE INDEX key_chain ON key (chain) WHERE chain IS NOT NULL;
