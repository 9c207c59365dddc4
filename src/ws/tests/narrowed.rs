//! What an open session keeps when its key is narrowed.

use std::{rc::Rc, sync::Arc};

use alloy_primitives::Address;
use nearhead_chain::{log_search::LogFilter, test_block::TestBlock, window::Window};
use nearhead_tenants::{
    UnixMillis,
    allowlists::{Allowlists, ListKind},
    command::{Command, NewKey},
    directory::{ChangedRecords, Directory},
    id::{KeyId, TenantId},
    limits::TenantLimits,
    record::KeySettings,
    secret::{KeyPrefix, SecretDigest},
    usage::UsedToday,
};

use super::{BUDGET, MESSAGE_MAX, open, taken};
use crate::{
    access::{Access, AccessSource, ConfiguredKeys, Refused, ServiceLimits},
    metrics::Metrics,
    rpc::{RequestSession as _, SubscriptionKind},
    tenants::UsageMeter,
    ws::{
        close_reason::CloseReason, frame, request_subscriptions::RequestSubscriptions,
        sessions::Sessions,
    },
};

/// A stored key, and the table that has it.
struct Keys {
    directory: Directory,
    access: Access,
}

const TENANT: TenantId = TenantId::of_bytes([1; 8]);
const KEY: KeyId = KeyId::of_bytes([2; 8]);

fn source<'a>(
    directory: &'a Directory,
    (configured, used_today): (&'a ConfiguredKeys, &'a UsedToday),
    limits: &'a ServiceLimits,
) -> AccessSource<'a> {
    AccessSource {
        directory,
        configured,
        limits,
        used_today,
        now: UnixMillis(0),
        desk: None,
    }
}

impl Keys {
    fn new() -> Self {
        let access = Access::of_configured(&[], &Self::limits(), UnixMillis(0));
        let mut this = Self {
            directory: Directory::default(),
            access,
        };
        this.run(Command::CreateTenant {
            id: TENANT,
            name: "tenant".parse().unwrap(),
            limits: TenantLimits::default(),
        });
        this.run(Command::CreateKey {
            key: NewKey {
                id: KEY,
                prefix: KeyPrefix::of("test"),
                digest: SecretDigest::of("test"),
            },
            tenant: TENANT,
            name: "key".parse().unwrap(),
            expires: None,
            settings: KeySettings::default(),
        });
        this
    }

    fn limits() -> ServiceLimits {
        ServiceLimits {
            sessions: 100,
            ..ServiceLimits::default()
        }
    }

    fn run(&mut self, command: Command) {
        let mut changed = ChangedRecords::default();
        for change in self.directory.plan(command, UnixMillis(0)).unwrap() {
            changed.add(&change, &self.directory);
            self.directory.make(change);
        }
        let none = (ConfiguredKeys::default(), UsedToday::default());
        let limits = Self::limits();
        let source = source(&self.directory, (&none.0, &none.1), &limits);
        self.access.update(source, &changed);
    }

    fn narrow(&mut self, allow: Allowlists) {
        self.run(Command::UpdateKey {
            id: KEY,
            name: "key".parse().unwrap(),
            expires: None,
            settings: KeySettings {
                allow,
                ..KeySettings::default()
            },
        });
    }

    fn sessions(&self) -> Sessions {
        let metrics = Metrics::new([]).unwrap();
        let (access, usage) = (self.access.clone(), UsageMeter::default());
        Sessions::new(BUDGET, MESSAGE_MAX, Arc::default(), access, metrics, usage)
    }
}

fn contract(number: u8) -> Address {
    Address::with_last_byte(number)
}

fn allow(methods: &[&str], contracts: &[u8]) -> Allowlists {
    let methods: Vec<_> = methods.iter().map(|name| name.parse().unwrap()).collect();
    let contracts: Vec<_> = contracts.iter().copied().map(contract).collect();
    Allowlists {
        methods: methods.try_into().unwrap(),
        contracts: contracts.try_into().unwrap(),
        ..Allowlists::default()
    }
}

fn logs_of(contracts: &[u8]) -> SubscriptionKind {
    SubscriptionKind::Logs(Rc::new(LogFilter {
        addresses: contracts.iter().copied().map(contract).collect(),
        ..LogFilter::default()
    }))
}

/// A subscription is no call: it ends with the right to it, also if a message was answered in
/// between, and also if it is made by a request that was let in before.
#[test]
fn a_session_ends_with_a_subscription_that_its_key_may_no_longer_have() {
    let snapshot = Window::new(1, TestBlock::default().genesis()).snapshot();
    let both = ["eth_subscribe", "eth_chainId"];
    for (kind, lists, stays) in [
        (SubscriptionKind::NewHeads, allow(&[], &[]), true),
        (SubscriptionKind::NewHeads, allow(&both, &[1]), true),
        (SubscriptionKind::Reorgs, allow(&both[1..], &[]), false),
        (logs_of(&[1]), allow(&[], &[1, 2]), true),
        (logs_of(&[1]), allow(&both[1..], &[1, 2]), false),
        (logs_of(&[1, 3]), allow(&[], &[1, 2]), false),
        (logs_of(&[]), allow(&[], &[1, 2]), false),
    ] {
        for is_late in [false, true] {
            let case = format!("{kind:?} {lists:?} {is_late}");
            let mut keys = Keys::new();
            let sessions = keys.sessions();
            let session = open(&sessions);
            let request = RequestSubscriptions::new(Rc::clone(&session));
            let subscribe = || {
                request.subscribe(kind.clone(), None, &snapshot).unwrap();
            };
            if !is_late {
                subscribe();
            }
            session.check_grant(UnixMillis(0));
            keys.narrow(lists.clone());
            // A message.
            session.grant.key(UnixMillis(0)).unwrap();
            if is_late {
                session.check_grant(UnixMillis(0));
                assert!(session.takes_messages(), "{case}");
                subscribe();
            }
            session.check_grant(UnixMillis(0));
            assert_eq!(session.takes_messages(), stays, "{case}");
            let reason = CloseReason::of(Refused::NotListed(ListKind::Methods));
            let sent = match stays {
                true => Vec::new(),
                false => frame::close(reason.code, reason.text).to_vec(),
            };
            assert_eq!(taken(&session), sent, "{case}");
        }
    }
}
