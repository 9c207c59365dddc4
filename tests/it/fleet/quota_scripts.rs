//! The scripts for quotas on a real store, against plain models of them, whatever is in their keys.

use nearhead_fleet::scripts;

use super::redis::Redis;
use crate::{harness::check, rng::Rng};

/// A bucket, in thousandths of tokens and milliseconds.
#[derive(Clone, Copy, Debug)]
struct Bucket {
    rate: i64,
    capacity: i64,
    /// What it has, and when; `None` if it is new.
    state: Option<(i64, i64)>,
}

impl Bucket {
    /// What it lends at `now`, and what it has then.
    fn lend(&mut self, spent: i64, wanted: i64, now: i64) -> [i64; 2] {
        let left = match self.state {
            None => self.capacity,
            Some((left, at)) => (left + (now - at).max(0) * self.rate).min(self.capacity),
        };
        let left = left - spent;
        let lent = left.min(wanted).max(0);
        self.state = Some((left - lent, now));
        [lent, left - lent]
    }
}

fn run(redis: &Redis, script: &str, keys: &[&str], arguments: &[i64]) -> Vec<i64> {
    let count = keys.len().to_string();
    let arguments: Vec<String> = arguments.iter().map(i64::to_string).collect();
    let head = ["EVAL", script, &count];
    let words = head.into_iter().chain(keys.iter().copied());
    let words = words.chain(arguments.iter().map(String::as_str));
    let words: Vec<&[u8]> = words.map(str::as_bytes).collect();
    redis.numbers(&words)
}

fn text(redis: &Redis, words: &[&str]) -> String {
    let words: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
    redis.call(&words)
}

/// When a bucket was last lent from, by the server's clock.
fn at(redis: &Redis, key: &str) -> i64 {
    text(redis, &["HGET", key, "at"]).parse().unwrap()
}

#[test]
fn buckets_lend_as_the_model_does() {
    let redis = Redis::start("fleet-script-lend");
    let keys = ["a", "b", "c"];
    let mut rng = Rng::new(59);
    let mut buckets = keys.map(|_| {
        let rate = rng.between(1, 5_000).cast_signed();
        Bucket {
            rate,
            capacity: rate * rng.between(1, 3_000).cast_signed(),
            state: None,
        }
    });
    for step in 0..3_000 {
        // What others may do: a clock that went back, fields that are no numbers, another type, a
        // key that is gone.
        let victim = rng.below(keys.len());
        let (key, bucket) = (keys[victim], &mut buckets[victim]);
        match rng.below(12) {
            0 if bucket.state.is_some() => {
                let ahead = at(&redis, key) + rng.between(1, 100_000).cast_signed();
                text(&redis, &["HSET", key, "at", &ahead.to_string()]);
                bucket.state = bucket.state.map(|(left, _)| (left, ahead));
            }
            1 => {
                let field = *rng.pick(&["left", "at"]);
                let long = "9".repeat(400);
                let odd = ["nan", "inf", "1e300", "", " 7", "0x10", "-", &long];
                let odd: &str = odd[rng.below(odd.len())];
                text(&redis, &["HSET", key, field, odd]);
                bucket.state = None;
            }
            2 => {
                text(&redis, &["DEL", key]);
                text(&redis, &["SADD", key, "x"]);
                bucket.state = None;
            }
            3 => {
                text(&redis, &["DEL", key]);
                bucket.state = None;
            }
            _ => {}
        }
        let mut arguments = Vec::new();
        for bucket in &buckets {
            let most = bucket.capacity.cast_unsigned() / 500 + 1;
            let spent = match rng.one_in(4) {
                true => rng.between(0, most * 1_000),
                false => 0,
            };
            let wanted = rng.between(0, most);
            let capacity = bucket.capacity / 1_000;
            let [spent, wanted] = [spent, wanted].map(u64::cast_signed);
            arguments.extend([bucket.rate, capacity, spent, wanted]);
        }
        let answer = run(&redis, scripts::LEND, &keys, &arguments);
        for (at_key, bucket) in buckets.iter_mut().enumerate() {
            bucket.capacity -= bucket.capacity % 1_000;
            let [_, _, spent, wanted] = arguments[at_key * 4..][..4] else {
                panic!("4 arguments");
            };
            let now = at(&redis, keys[at_key]);
            let expected = bucket.lend(spent, wanted * 1_000, now);
            let found = &answer[at_key * 2..][..2];
            check(&format!("step {step}"), &found, &&expected[..]);
        }
    }
    // A bucket that will be full is not kept for ever, however deep its debt is.
    for (key, bucket) in keys.iter().zip(buckets) {
        let (left, _) = bucket.state.unwrap();
        let left = text(&redis, &["PTTL", key])[1..].parse::<i64>().unwrap()
            - (bucket.capacity - left) / bucket.rate;
        assert!((0..=1_001).contains(&left), "{key}: {left} ms");
    }
    let deepest = run(&redis, scripts::LEND, &["d"], &[1, 1, i64::MAX, 1]);
    check("the deepest debt", &deepest, &vec![0, -(1 << 52)]);
    assert!(text(&redis, &["PTTL", "d"]).starts_with(':'));
}

#[test]
fn sums_are_as_much_as_anybody_knows_of() {
    const DAY: i64 = 86_400_000;
    let redis = Redis::start("fleet-script-count");
    let count = |arguments: [i64; 4]| {
        let [known, added, more_known, more] = arguments;
        let arguments = [DAY, known, added, more_known, more];
        run(&redis, scripts::COUNT, &["x", "y"], &arguments)
    };
    check("new sums", &count([0, 5, 100, 7]), &vec![5, 107]);
    check("others", &count([0, 5, 100, -7]), &vec![10, 100]);
    check("what is known", &count([4, 0, 200, 1]), &vec![10, 201]);
    check("never negative", &count([0, -99, 0, 0]), &vec![0, 201]);
    let most = (1 << 53) - 1;
    check(
        "never too much",
        &count([i64::MAX, i64::MAX, 0, 0])[0],
        &most,
    );
    for odd in ["nan", "-5", "1e9", &"9".repeat(17), "a text"] {
        text(&redis, &["SET", "x", odd]);
        check(odd, &count([3, 2, 0, 0])[0], &5);
    }
    text(&redis, &["DEL", "x"]);
    text(&redis, &["SADD", "x", "member"]);
    check("another type", &count([0, 2, 0, 0])[0], &2);
    let left = text(&redis, &["PTTL", "x"])[1..].parse::<i64>().unwrap();
    assert!((DAY - 60_000..=DAY).contains(&left), "{left}");
}
