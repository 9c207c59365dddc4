//! Metrics of the connections of one listener.

use prometheus::{Error, IntCounter, IntCounterVec, IntGauge, IntGaugeVec};

use super::exporter::Exporter;

/// A listener, as the metrics name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ListenerKind {
    /// For clients.
    Public,
    /// For operators.
    Admin,
    /// For metrics and probes alone.
    Metrics,
}

impl ListenerKind {
    const fn label(self) -> &'static str {
        match self {
            Self::Public => "public",
            Self::Admin => "admin",
            Self::Metrics => "metrics",
        }
    }
}

/// Why a connection without an accepted key is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EvictionReason {
    /// The slots for connections run out.
    Slots,
    /// Its address has as many such connections as it may have.
    Address,
    /// It was idle for too long while the slots run out.
    Idle,
}

impl EvictionReason {
    const ALL: [Self; 3] = [Self::Slots, Self::Address, Self::Idle];

    const fn label(self) -> &'static str {
        match self {
            Self::Slots => "slots",
            Self::Address => "address",
            Self::Idle => "idle",
        }
    }
}

/// How a TLS handshake ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HandshakeOutcome {
    /// The connection has TLS.
    Made,
    /// The client has gone, or its connection was closed for others.
    Left,
    /// It took too long.
    Late,
    /// The client spoke plain HTTP.
    PlainHttp,
    /// Client and server have no version in common, the certificate of either is not accepted, or
    /// what came is no TLS.
    Refused,
}

impl HandshakeOutcome {
    const ALL: [Self; 5] = [
        Self::Made,
        Self::Left,
        Self::Late,
        Self::PlainHttp,
        Self::Refused,
    ];

    const fn label(self) -> &'static str {
        match self {
            Self::Made => "made",
            Self::Left => "left",
            Self::Late => "late",
            Self::PlainHttp => "plain_http",
            Self::Refused => "refused",
        }
    }
}

/// Why a connection is closed that has to begin with a header of the PROXY protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ProxyHeaderRefusal {
    /// It does not come from a trusted proxy.
    Untrusted,
    /// It has no header, or one that cannot be read.
    Malformed,
    /// The header took too long.
    Late,
}

impl ProxyHeaderRefusal {
    pub(super) const fn label(self) -> &'static str {
        match self {
            Self::Untrusted => "untrusted",
            Self::Malformed => "malformed",
            Self::Late => "late",
        }
    }
}

/// The series of all listeners.
#[derive(Clone, Debug)]
pub(super) struct ListenersMetrics {
    /// `nearhead_connections{listener, key}`.
    connections: IntGaugeVec,
    /// `nearhead_strangers_evicted_total{listener, reason}`.
    evicted: IntCounterVec,
    /// `nearhead_idle_connections_evicted_total{listener}`.
    idle_evicted: IntCounterVec,
    /// `nearhead_refusing_connections{listener}`.
    refusing: IntGaugeVec,
    /// `nearhead_tls_handshakes_total{listener, outcome}`.
    handshakes: IntCounterVec,
}

/// Handles of one listener's series.
#[derive(Clone, Debug)]
pub(crate) struct ListenerMetrics {
    /// Open connections without an accepted key.
    pub(crate) strangers: IntGauge,
    /// Open connections on which a key was accepted.
    pub(crate) accepted: IntGauge,
    /// Connections on which a key was accepted that were closed for others.
    pub(crate) idle_evicted: IntCounter,
    /// 1 while new connections are refused.
    pub(crate) refusing: IntGauge,
    /// Connections without an accepted key that were closed, by reason.
    evicted: [IntCounter; EvictionReason::ALL.len()],
    /// TLS handshakes, by outcome.
    handshakes: [IntCounter; HandshakeOutcome::ALL.len()],
}

impl ListenersMetrics {
    pub(super) fn new(exporter: &Exporter) -> Result<Self, Error> {
        Ok(Self {
            connections: exporter.gauges(
                "nearhead_connections",
                "Open connections, by listener, and by whether a key (on the admin listener: a login or token) was accepted on them: accepted or none",
                &["listener", "key"],
            )?,
            evicted: exporter.counters(
                "nearhead_strangers_evicted_total",
                "Connections without an accepted key that were closed, by listener and reason: slots (another connection got the slot), address (over --connections-per-address), idle (for too long while slots run out)",
                &["listener", "reason"],
            )?,
            idle_evicted: exporter.counters(
                "nearhead_idle_connections_evicted_total",
                "Idle connections with an accepted key that were closed because all slots were taken, by listener",
                &["listener"],
            )?,
            refusing: exporter.gauges(
                "nearhead_refusing_connections",
                "1 while new connections are refused because all workers are overloaded, 0 otherwise, by listener",
                &["listener"],
            )?,
            handshakes: exporter.counters(
                "nearhead_tls_handshakes_total",
                "TLS handshakes, by listener and outcome: made, left (the client went away, or its connection was closed for others), late (over --header-timeout), plain_http (it spoke HTTP without TLS), refused (no version in common, a certificate that either side does not accept, or no TLS)",
                &["listener", "outcome"],
            )?,
        })
    }

    pub(super) fn of(&self, listener: ListenerKind) -> ListenerMetrics {
        let listener = listener.label();
        let open = |key| self.connections.with_label_values(&[listener, key]);
        ListenerMetrics {
            strangers: open("none"),
            accepted: open("accepted"),
            idle_evicted: self.idle_evicted.with_label_values(&[listener]),
            refusing: self.refusing.with_label_values(&[listener]),
            evicted: EvictionReason::ALL
                .map(|reason| self.evicted.with_label_values(&[listener, reason.label()])),
            handshakes: HandshakeOutcome::ALL.map(|outcome| {
                self.handshakes
                    .with_label_values(&[listener, outcome.label()])
            }),
        }
    }
}

impl ListenerMetrics {
    /// Counts a connection without an accepted key that is closed.
    pub(crate) fn evicted(&self, reason: EvictionReason) {
        self.evicted[reason as usize].inc();
    }

    /// Counts a TLS handshake.
    pub(crate) fn handshake(&self, outcome: HandshakeOutcome) {
        self.handshakes[outcome as usize].inc();
    }
}
