//! genesis.json and chain.rlp as bytes (contract stub).
