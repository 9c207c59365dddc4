//! Fleets of real processes: nearheads over one Redis, and a geth whose head the test chooses.
//!
//! | file | what it tests |
//! |---|---|
//! | `access_lists` | an access list that one process asks of a node is there for all |
//! | `below_window` | the genesis, and tags of blocks below the window |
//! | `doctor` | `nearhead doctor`, and the check at the start, of stores of all kinds |
//! | `following` | replicas answer as geth does, after each change of the head |
//! | `lag` | by how many entries a process is behind |
//! | `leading` | leaders that are killed, paused or ended |
//! | `shared_state` | state that one process asks of a node is there for all |
//! | `sharing` | items, turns and wants in a real store, and state that no node has |
//! | `cut` | a leader that is cut from the store, and from its node |
//! | `load` | processes that are replaced and killed while clients read and subscribe |
//! | `libraries` | the client libraries, while a leader is killed and a process is replaced |
//! | `library_faults` | the same, while leader or store fail, all are replaced, a replica joins |
//! | `scripts` | the scripts in a real Redis, and their model |
//! | `sentinel` | a failover of the store that loses writes |
//! | `presence` | which processes there are, whatever others write |
//! | `quotas` | a tenant's quota over three processes |
//! | `filters` | filters of clients, which every process answers |
//! | `filter_scripts` | the scripts for filters, and the client of the store that calls them |
//! | `quota_scripts` | the scripts for quotas, against plain models |
//! | `tenants` | tenants and keys that all processes share |
//! | `store_client` | the client of the store, and servers that hang, refuse or overflow |
//! | `tenant_store` | the store of tenants in a real Redis, by the checks of every store |
//! | `usage` | what keys used, over all processes |
//! | `store` | a store that is restarted, and what others write into it |
//!
//! `redis` is a Redis of a test's own, with a sentinel, and `link` a way to it that can be cut;
//! `stage` has Redis, geth and the processes, and `moving_chain` a chain with reorgs; `readers` are
//! clients that read, `subscriber` is a client of subscriptions, and `sessions` are several of them
//! that resume by themselves; `through_proxy` has all of these beside what fails,
//! `library_sessions` has clients of subscriptions of the libraries, `example_loop` runs their
//! examples, `member` is a process and its link, and `store_access` is the client of a store in
//! this process.

mod access_lists;
mod below_window;
mod cut;
mod doctor;
mod example_loop;
mod filter_scripts;
mod filters;
mod following;
mod lag;
mod leading;
mod libraries;
mod library_faults;
mod library_sessions;
mod link;
mod load;
mod member;
mod moving_chain;
mod presence;
mod quota_scripts;
mod quotas;
mod readers;
mod redis;
mod scripts;
mod sentinel;
mod sessions;
mod shared_state;
mod sharing;
mod stage;
mod store;
mod store_access;
mod store_client;
mod subscriber;
mod tenant_store;
mod tenants;
mod through_proxy;
mod usage;
