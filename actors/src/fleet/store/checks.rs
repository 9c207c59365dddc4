//! Whether a server suits a fleet.

use std::{collections::HashMap, ops::RangeInclusive, time::Duration};

use super::error::printable;

/// The oldest version of Redis whose scripts do what a fleet relies on.
const REDIS_MIN: u32 = 7;

/// The same of Valkey.
const VALKEY_MIN: u32 = 8;

/// What a server is, and what is wrong with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreChecks {
    /// Its name and version, such as `Redis 7.0.15`.
    pub server: Box<str>,
    /// What is wrong with it; empty if it suits a fleet.
    pub problems: Vec<StoreProblem>,
    /// How far its clock is apart from this machine's, at least; `None` if it did not say its time.
    /// A slow answer is no difference of clocks: they agree if its time lies between question and
    /// answer.
    pub clock_apart: Option<Duration>,
}

/// Something that is wrong with a server.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StoreProblem {
    /// It is too old, or it does not say what it is.
    #[error("it is {0}: a fleet needs Redis {REDIS_MIN} or Valkey {VALKEY_MIN}, or later")]
    Version(Box<str>),
    /// It removes keys when its memory is full.
    #[error(
        "its maxmemory-policy is {0}: it may remove what a fleet needs. Set maxmemory-policy to noeviction"
    )]
    Evicts(Box<str>),
    /// It is a node of a cluster, whose slots move to other nodes.
    #[error(
        "it is part of a Redis cluster: use a single server, with sentinels if it has replicas"
    )]
    Cluster,
    /// It keeps what it has in memory alone, or in snapshots that are minutes old.
    #[error(
        "it keeps no append-only file: its restart loses what was written last. Set appendonly to yes"
    )]
    NotDurable,
}

impl StoreChecks {
    /// Reads what the server says of itself. `asked` are this machine's times of the question and
    /// of the answer, since the Unix epoch.
    pub(super) fn of(info: &str, asked: &RangeInclusive<Duration>) -> Self {
        let lines = info.lines().filter_map(|line| line.split_once(':'));
        let values: HashMap<&str, &str> = lines.map(|(name, value)| (name, value.trim())).collect();
        let value = |name| values.get(name).copied();
        let (name, version, oldest) = match value("valkey_version") {
            Some(version) => ("Valkey", Some(version), VALKEY_MIN),
            None => ("Redis", value("redis_version"), REDIS_MIN),
        };
        let server = printable(&format!(
            "{name} {}",
            version.unwrap_or("without a version")
        ));
        let major = version.and_then(|version| version.split('.').next()?.parse::<u32>().ok());
        let mut problems = Vec::new();
        if major.is_none_or(|major| major < oldest) {
            problems.push(StoreProblem::Version(server.clone()));
        }
        let policy = value("maxmemory_policy").unwrap_or("unknown");
        if policy != "noeviction" {
            problems.push(StoreProblem::Evicts(printable(policy)));
        }
        if value("cluster_enabled") == Some("1") {
            problems.push(StoreProblem::Cluster);
        }
        if value("aof_enabled") != Some("1") {
            problems.push(StoreProblem::NotDurable);
        }
        let clock = value("server_time_usec").and_then(|micros| micros.parse().ok());
        let apart = |clock: Duration| {
            let behind = asked.start().saturating_sub(clock);
            behind.max(clock.saturating_sub(*asked.end()))
        };
        Self {
            server,
            problems,
            clock_apart: clock.map(Duration::from_micros).map(apart),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checks(info: &str) -> StoreChecks {
        let at = Duration::from_secs;
        StoreChecks::of(info, &(at(1_700_000_000)..=at(1_700_000_003)))
    }

    fn problems(info: &str) -> (String, Vec<String>) {
        let checks = checks(info);
        let problems = checks.problems.iter().map(ToString::to_string);
        (checks.server.into(), problems.collect())
    }

    #[test]
    fn a_server_that_suits_has_no_problems() {
        let redis =
            "# Server\r\nredis_version:7.0.15\r\naof_enabled:1\r\nmaxmemory_policy:noeviction\r\n";
        assert_eq!(problems(redis), ("Redis 7.0.15".to_owned(), vec![]));
        let valkey = "redis_version:7.2.4\r\nvalkey_version:8.1.0\r\nmaxmemory_policy:noeviction\r\n\
             aof_enabled:1\r\nserver_time_usec:1700000000000001\r\n";
        assert_eq!(problems(valkey), ("Valkey 8.1.0".to_owned(), vec![]));
    }

    #[test]
    fn clocks_agree_if_its_time_lies_between_question_and_answer() {
        let millis = |millis| Some(Duration::from_millis(millis));
        for (clock, apart) in [
            ("1700000000000000", millis(0)),
            ("1700000003000000", millis(0)),
            ("1699999998500000", millis(1_500)),
            ("1700000005500000", millis(2_500)),
            ("0", millis(1_700_000_000_000)),
            ("-1", None),
            ("99999999999999999999", None),
            ("now", None),
        ] {
            let info = format!("server_time_usec:{clock}");
            assert_eq!(checks(&info).clock_apart, apart, "{clock}");
        }
    }

    #[test]
    fn what_is_wrong_is_said_in_plain_words() {
        let old = "redis_version:6.2.1\nmaxmemory_policy:allkeys-lru\ncluster_enabled:1\n";
        let (server, found) = problems(old);
        assert_eq!(server, "Redis 6.2.1");
        assert_eq!(
            found,
            [
                "it is Redis 6.2.1: a fleet needs Redis 7 or Valkey 8, or later",
                "its maxmemory-policy is allkeys-lru: it may remove what a fleet needs. Set \
                 maxmemory-policy to noeviction",
                "it is part of a Redis cluster: use a single server, with sentinels if it has \
                 replicas",
                "it keeps no append-only file: its restart loses what was written last. Set \
                 appendonly to yes",
            ]
        );
        let (_, found) = problems("redis_version:7.2.4\nvalkey_version:7.2.4\n");
        assert_eq!(found.len(), 3);
        let (server, found) = problems("hello");
        assert_eq!(
            (server.as_str(), found.len()),
            ("Redis without a version", 3)
        );
    }
}
