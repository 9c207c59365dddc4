//! Certificates that change while the program serves.

use std::{
    fs,
    sync::atomic::{AtomicBool, Ordering},
    thread,
};

use super::{
    TlsServer,
    certificates::{Authority, Pair, Valid},
    is_answered, session_is_answered,
};
use crate::harness::{
    check,
    failing_disk::{DiskFault, FailingDisk, tenants_of},
    scratch, wait_until,
};

const EXPIRY: &str = "nearhead_tls_certificate_expiry_seconds";
const READ: &str = r#"nearhead_tls_reloads_total{outcome="ok"}"#;
const FAILED: &str = r#"nearhead_tls_reloads_total{outcome="failed"}"#;

/// Seconds since the Unix epoch.
const END_OF_2099: f64 = 4_102_444_799.0;
const END_OF_2098: f64 = 4_070_908_799.0;

/// Connections that are open go on with the certificate that they have seen, under load, while new
/// ones get the new one, and a pair that cannot be used changes nothing.
#[test]
fn files_that_change_are_used_for_new_connections() {
    let authority = Authority::shared();
    let pair = |name, ends| authority.sign(name, "server", Valid("20200101000000Z", ends));
    let first = pair("first", "20991231235959Z");
    let second = pair("second", "20981231235959Z");
    let third = pair("third", "20991231235959Z");
    let ended = authority.sign("ended-later", "server", Valid::ENDED);
    let live = first.copied_to(&scratch("tls-rotation"));
    let server = TlsServer::start(&live, &["--workers", "2"]);
    check("its end", &server.metric(EXPIRY), &END_OF_2099);
    check("first", &server.connect().certificate, &first.der());
    let (mut connection, mut session) = (server.http(), server.session());
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        // A panic of this thread ends the load.
        let load = scope.spawn(|| {
            let mut answered = 0;
            while !is_over.load(Ordering::Relaxed) {
                is_answered(&mut connection);
                session_is_answered(&mut session);
                answered += 1;
            }
            answered
        });
        let over = scopeguard(&is_over);

        second.replace(&live);
        wait_until("the second is used", || {
            server.connect().certificate == second.der()
        });
        check("its end", &server.metric(EXPIRY), &END_OF_2098);
        check(
            "once",
            &(server.metric(READ), server.metric(FAILED)),
            &(1.0, 0.0),
        );
        server.wait_logged("the certificate of the listeners was read again");

        // Keys of others, certificates that have ended, and files that are none.
        let mixed = Pair {
            certificate: first.certificate.clone(),
            key: third.key.clone(),
        };
        mixed.replace(&live);
        server.wait_logged("is not that of the certificate");
        server.wait_logged("the certificate cannot be read again: the one before stays");
        ended.replace(&live);
        server.wait_logged("ended at 2020-02-01T00:00:00Z");
        fs::write(&live.certificate, "nothing").unwrap();
        server.wait_logged("has no certificate that can be read");
        check(
            "three",
            &(server.metric(READ), server.metric(FAILED)),
            &(1.0, 3.0),
        );
        check("second", &server.connect().certificate, &second.der());
        check("its end", &server.metric(EXPIRY), &END_OF_2098);

        // A file that is missing is being replaced.
        fs::remove_file(&live.certificate).unwrap();
        server.server.process.hang_up();
        wait_until("the signal is counted", || server.metric(FAILED) == 4.0);
        check("second", &server.connect().certificate, &second.der());

        third.replace(&live);
        wait_until("the third is used", || {
            server.connect().certificate == third.der()
        });
        server.server.process.hang_up();
        wait_until("the signal is counted", || server.metric(READ) == 3.0);
        check("third", &server.connect().certificate, &third.der());
        drop(over);
        let answered = load.join().unwrap();
        assert!(answered > 0, "there was no load");
    });
    is_answered(&mut connection);
    session_is_answered(&mut session);
}

/// Certificates do not wait for a store of keys whose disk does not answer.
#[test]
fn files_that_change_are_used_while_the_store_hangs() {
    let authority = Authority::shared();
    let pair = |name| authority.sign(name, "server", Valid::LONG);
    let [first, second, third] = ["before", "during", "after"].map(pair);
    let live = first.copied_to(&scratch("tls-rotation-hang"));
    let data = scratch("tls-rotation-hang-data");
    let server = TlsServer::start(&live, &["--data-dir", data.to_str().unwrap()]);
    let process = &server.server.process;
    let disk = FailingDisk::of(process, &tenants_of(&data), DiskFault::Hangs);
    let is_used = |pair: &Pair| {
        wait_until("the pair is used", || {
            server.connect().certificate == pair.der()
        });
    };
    // The signal replaces the keys too, and these wait for the store.
    second.replace(&live);
    process.hang_up();
    is_used(&second);
    server.wait_logged("the keys of the configuration are not replaced yet");
    third.replace(&live);
    is_used(&third);
    disk.mend();
    server.wait_logged("the keys of the configuration were read again");
}

/// Ends the load when it is dropped, also by a panic.
fn scopeguard(is_over: &AtomicBool) -> impl Drop {
    struct Over<'a>(&'a AtomicBool);
    impl Drop for Over<'_> {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Relaxed);
        }
    }
    Over(is_over)
}
