//! Prints what the keys in force cost: `cargo bench --bench access`.
//!
//! The time of one change among few and among many keys, the time until many are in force, and the
//! memory of each. Times are not asserted.
#![expect(clippy::unwrap_used, reason = "a bench may panic")]

use std::{
    fs,
    hint::black_box,
    time::{Duration, Instant},
};

use nearhead::access::{Access, AccessSource, ConfiguredKeys, ServiceLimits};
use nearhead_tenants::{
    UnixMillis,
    command::{Command, NewKey},
    directory::{ChangedRecords, Directory},
    id::{KeyId, TenantId},
    limits::TenantLimits,
    record::KeySettings,
    secret::{KeyPrefix, SecretDigest},
    usage::UsedToday,
};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const NOW: UnixMillis = UnixMillis(1_800_000_000_000);
/// Few keys and many.
const KEYS: [usize; 2] = [100, 100_000];
/// Keys of each tenant.
const OF_TENANT: usize = 100;
/// Changes of each kind that are timed.
const CHANGES: usize = 1_000;
/// Look-ups that are timed.
const LOOKUPS: usize = 2_000_000;

/// Tenants and keys, in force.
struct Served {
    directory: Directory,
    configured: ConfiguredKeys,
    limits: ServiceLimits,
    used_today: UsedToday,
    access: Option<Access>,
}

fn secret(number: usize) -> String {
    format!("{number:043}")
}

fn key(number: usize) -> KeyId {
    KeyId::of_configured(&secret(number))
}

fn tenant(number: usize) -> TenantId {
    TenantId::of_configured(&(number / OF_TENANT).to_string())
}

/// Half of the keys have a list of two origins.
fn settings(number: usize) -> KeySettings {
    let mut settings = KeySettings::default();
    if number % 2 == 1 {
        let origins = ["https://app.example.org", "https://*.example.com"];
        let origins = origins.map(|origin| origin.parse().unwrap()).to_vec();
        settings.allow.origins = origins.try_into().unwrap();
    }
    settings
}

fn create_key(number: usize) -> Command {
    let secret = secret(number);
    Command::CreateKey {
        key: NewKey {
            id: key(number),
            prefix: KeyPrefix::of(&secret),
            digest: SecretDigest::of(&secret),
        },
        tenant: tenant(number),
        name: format!("backend {number}").parse().unwrap(),
        expires: Some(UnixMillis(u64::MAX)),
        settings: settings(number),
    }
}

fn update_key(number: usize, round: usize) -> Command {
    Command::UpdateKey {
        id: key(number),
        name: format!("backend {number} of {round}").parse().unwrap(),
        expires: None,
        settings: settings(number),
    }
}

fn update_tenant(number: usize, round: usize) -> Command {
    let id = tenant(number);
    Command::UpdateTenant {
        id,
        name: id.to_string().parse().unwrap(),
        limits: TenantLimits {
            sessions: u32::try_from(round).ok(),
            ..TenantLimits::default()
        },
    }
}

impl Served {
    fn source(&self) -> AccessSource<'_> {
        AccessSource {
            directory: &self.directory,
            configured: &self.configured,
            limits: &self.limits,
            used_today: &self.used_today,
            now: NOW,
            desk: None,
        }
    }

    /// What a command changes.
    fn run(&mut self, command: Command) -> ChangedRecords {
        let mut changed = ChangedRecords::default();
        for change in self.directory.plan(command, NOW).unwrap() {
            changed.add(&change, &self.directory);
            self.directory.make(change);
        }
        changed
    }

    /// Puts this many keys in force, and prints what that costs.
    fn of(keys: usize) -> Self {
        let mut this = Self {
            directory: Directory::default(),
            configured: ConfiguredKeys::default(),
            limits: ServiceLimits::default(),
            used_today: UsedToday::default(),
            access: None,
        };
        let empty = resident();
        for number in (0..keys).step_by(OF_TENANT) {
            let (id, limits) = (tenant(number), TenantLimits::default());
            let name = id.to_string().parse().unwrap();
            this.run(Command::CreateTenant { id, name, limits });
        }
        for number in 0..keys {
            this.run(create_key(number));
        }
        let known = resident();
        let begun = Instant::now();
        let access = Access::new(this.source());
        let took = begun.elapsed();
        let in_force = resident();
        println!("{keys} keys: in force after {took:.1?}");
        if keys >= 10_000 {
            let each = |from: u64, to: u64| to.saturating_sub(from) / keys as u64;
            let (stored, more) = (each(empty, known), each(known, in_force));
            println!("    a key takes {stored} bytes in the directory, {more} in the table");
        }
        this.access = Some(access);
        this
    }

    /// The median time until a change is in force, without what the directory does.
    fn median(&mut self, what: &str, command: impl Fn(usize, usize) -> Command) -> Duration {
        let keys = self.directory.keys().len();
        let mut times: Vec<Duration> = (0..CHANGES)
            .map(|round| {
                let number = round.wrapping_mul(7_919) % keys;
                let changed = self.run(command(number, round));
                let begun = Instant::now();
                self.access
                    .as_ref()
                    .unwrap()
                    .update(self.source(), &changed);
                begun.elapsed()
            })
            .collect();
        times.sort_unstable();
        let (median, most) = (times[CHANGES / 2], times[CHANGES - 1]);
        println!("    {what}: median {median:.1?}, longest {most:.1?}");
        median
    }

    fn time_lookups(&self) {
        let access = self.access.as_ref().unwrap();
        let keys = self.directory.keys().len();
        let secrets: Vec<String> = (0..keys).map(secret).collect();
        let begun = Instant::now();
        for round in 0..LOOKUPS {
            let secret = &secrets[round.wrapping_mul(7_919) % keys];
            black_box(access.resolve(black_box(secret), NOW));
        }
        println!("    a look-up: {:.1?}", begun.elapsed() / LOOKUPS as u32);
    }
}

/// Bytes of this process in memory.
fn resident() -> u64 {
    let text = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = text.lines().find(|line| line.starts_with("VmRSS"));
    let kib = line.and_then(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok());
    kib.unwrap_or(0) * 1_024
}

fn main() {
    let medians = KEYS.map(|keys| {
        let mut served = Served::of(keys);
        served.time_lookups();
        [
            served.median("change a key", update_key),
            served.median(
                &format!("change a tenant of {OF_TENANT} keys"),
                update_tenant,
            ),
        ]
    });
    let [few, many] = medians;
    for (what, (few, many)) in ["a key", "a tenant"]
        .into_iter()
        .zip(few.into_iter().zip(many))
    {
        let ratio = many.as_secs_f64() / few.as_secs_f64();
        println!("{what}: {} keys / {} keys {ratio:.2}", KEYS[1], KEYS[0]);
    }
}
