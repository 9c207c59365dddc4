//! One schedule: who fails when. All of it follows from its seed.

use std::{collections::BinaryHeap, time::Duration};

use super::{
    LEASE, LEASE_MAX, PAGE, STEP,
    attacker::Attacker,
    kinds::Kind,
    message::{Answer, Body, Message, Request},
    oracle::Oracle,
    process::Process,
    rng::Rng,
    world::World,
};
use crate::{
    fleet_key::FleetKey,
    lag::newest_of,
    lease::LeaseCall,
    policy::Policy,
    scripts::Reported,
    store_model::{Owner, Store},
};

/// Time with faults.
const FAULTS: Duration = Duration::from_millis(7_000);

/// Time without faults within which all replicas have to be at the head: a lease, a few blocks, and
/// what a refill takes.
const CALM: Duration = Duration::from_millis(3_000);

/// Time at the end in which the chain stands still, so that heads can be compared.
const END: Duration = Duration::from_millis(800);

/// Blocks that a reorg replaces at most, in most schedules: as many as an entry has room for.
const DEEP: usize = 3;

/// The same in others: more than an entry has room for.
const DEEPEST: usize = 6;

/// Which faults a schedule has.
struct Faults {
    loses: bool,
    delays: bool,
    duplicates: bool,
    pauses: bool,
    restarts: bool,
    cuts: bool,
    silences: bool,
    store_fails: bool,
    attacks: bool,
}

impl Faults {
    fn new(rng: &mut Rng) -> Self {
        Self {
            loses: rng.one_in(2),
            delays: rng.one_in(2),
            duplicates: rng.one_in(2),
            pauses: rng.one_in(2),
            restarts: rng.one_in(3),
            cuts: rng.one_in(2),
            silences: rng.one_in(3),
            store_fails: rng.one_in(2),
            attacks: rng.one_in(2),
        }
    }
}

pub(super) struct Schedule {
    rng: Rng,
    faults: Faults,
    now: Duration,
    world: World,
    store: Store,
    /// A store that another one has replaced, and that does not know it.
    deposed: Store,
    /// What a replica of the store has, which may become the store.
    backup: Store,
    backup_at: Duration,
    store_away_until: Duration,
    processes: Vec<Process>,
    messages: BinaryHeap<Message>,
    sent: u64,
    attacker: Attacker,
    block_at: Duration,
    /// Blocks that a reorg replaces at most.
    deepest: usize,
    policy: Policy,
    pub(super) oracle: Oracle,
}

impl Schedule {
    pub(super) fn new(seed: u64, policy: Policy) -> Self {
        let mut rng = Rng::new(seed);
        let key = FleetKey::new(&[0x11; 32], b"model").unwrap();
        let faults = Faults::new(&mut rng);
        let count = 3 + rng.below(2);
        // At least two may lead, and at least one only follows.
        let with_nodes = 2 + rng.below(count - 2);
        let processes = 0..count;
        let processes = processes.map(|name| Process::new(name, &key, name < with_nodes, policy));
        let leaked = rng.one_in(3).then(|| key.clone());
        Self {
            faults,
            now: Duration::ZERO,
            world: World::new(&mut rng),
            store: Store::with_policy(LEASE_MAX, policy),
            deposed: Store::with_policy(LEASE_MAX, policy),
            backup: Store::with_policy(LEASE_MAX, policy),
            backup_at: Duration::ZERO,
            store_away_until: Duration::ZERO,
            processes: processes.collect(),
            messages: BinaryHeap::new(),
            sent: 0,
            attacker: Attacker::new(leaked),
            block_at: Duration::ZERO,
            deepest: match seed % 4 {
                2 => DEEPEST,
                _ => DEEP,
            },
            policy,
            oracle: Oracle::new(key, policy),
            rng,
        }
    }

    /// Runs the schedule; the error says which invariant broke.
    pub(super) fn run(&mut self) -> Result<(), String> {
        while self.now < FAULTS + CALM {
            self.now += STEP;
            let is_calm = self.now >= FAULTS;
            if is_calm && self.now < FAULTS + STEP {
                self.end_faults();
            }
            self.advance_chain(is_calm);
            if !is_calm {
                self.fail_something();
            }
            self.deliver();
            self.step();
            let stores = self.store.broken.take().or(self.deposed.broken.take());
            let broken = stores.or(self.oracle.broken.take());
            if let Some(broken) = broken {
                return Err(format!("{:?}: {broken}", self.now));
            }
        }
        self.check_end()
    }

    fn end_faults(&mut self) {
        for process in &mut self.processes {
            process.paused_until = process.paused_until.min(self.now);
            process.down_until = process.down_until.min(self.now);
            process.cut_until = Duration::ZERO;
            process.deposed_until = Duration::ZERO;
            process.is_cut_from_nodes = false;
            process.late = 0;
        }
        self.store_away_until = Duration::ZERO;
        // What is still on its way arrives, but nothing takes longer than usual any more.
    }

    fn advance_chain(&mut self, is_calm: bool) {
        if self.now < self.block_at || self.now >= FAULTS + CALM - END {
            return;
        }
        let reverted = match self.rng.below(6) {
            0 => 1 + self.rng.below(self.deepest),
            _ => 0,
        };
        if reverted > 0 {
            self.oracle.kinds.note(Kind::Reorg);
        }
        self.world.advance(reverted, &mut self.rng);
        self.block_at = self.now + self.rng.ms(60, 240);
        for process in &mut self.processes {
            process.late = match is_calm {
                true => 0,
                false => self.rng.below(2),
            };
        }
    }

    /// What fails in this step: about one thing in half a second.
    fn fail_something(&mut self) {
        if self.now >= self.backup_at {
            self.backup = self.store.clone();
            self.backup_at = self.now + self.rng.ms(20, 500);
        }
        if !self.rng.one_in(12) {
            return;
        }
        let name = self.rng.below(self.processes.len());
        let (now, rng, kinds) = (self.now, &mut self.rng, &mut self.oracle.kinds);
        let process = &mut self.processes[name];
        let until = now + rng.ms(100, 1_500);
        match rng.below(8) {
            0 if self.faults.pauses => {
                kinds.note(Kind::Paused);
                process.paused_until = until;
            }
            1 if self.faults.restarts => {
                kinds.note(Kind::Restarted);
                process.restart(until);
            }
            2 if self.faults.cuts => {
                kinds.note(Kind::Cut);
                process.cut_until = until;
            }
            3 if self.faults.silences => {
                kinds.note(Kind::NodesSilent);
                process.is_cut_from_nodes = !process.is_cut_from_nodes;
            }
            4 | 5 if self.faults.store_fails => self.fail_store(until),
            6 | 7 if self.faults.attacks => {
                self.attacker.act(&mut self.store, kinds, rng, now);
            }
            _ => {}
        }
    }

    fn fail_store(&mut self, until: Duration) {
        let kinds = &mut self.oracle.kinds;
        match self.rng.below(5) {
            0 => {
                kinds.note(Kind::StoreAway);
                self.store_away_until = until;
            }
            1 => {
                kinds.note(Kind::StoreEmptied);
                self.store = Store::with_policy(LEASE_MAX, self.policy);
            }
            2 => {
                kinds.note(Kind::SplitBrain);
                self.deposed = std::mem::replace(&mut self.store, self.backup.clone());
                for process in &mut self.processes {
                    if self.rng.one_in(2) {
                        process.deposed_until = until;
                    }
                }
            }
            _ => {
                kinds.note(Kind::WritesLost);
                self.store = self.backup.clone();
            }
        }
    }

    /// Sends a message, if it is not lost; perhaps twice.
    fn send(&mut self, owner: Owner, asked_at: Duration, body: &Body) {
        let is_calm = self.now >= FAULTS;
        let is_cut = self.processes[owner.process].cut_until > self.now;
        if is_cut || (!is_calm && self.faults.loses && self.rng.one_in(15)) {
            return;
        }
        let is_doubled = !is_calm && self.faults.duplicates && self.rng.one_in(15);
        for _ in 0..=usize::from(is_doubled) {
            let is_slow = !is_calm && self.faults.delays && self.rng.one_in(12);
            let delay = match is_slow {
                true => self.rng.ms(0, 1_300),
                false => self.rng.ms(0, 24),
            };
            self.sent += 1;
            self.messages.push(Message {
                at: self.now + delay,
                number: self.sent,
                owner,
                asked_at,
                body: body.clone(),
            });
        }
    }

    /// Delivers what has arrived.
    fn deliver(&mut self) {
        while self
            .messages
            .peek()
            .is_some_and(|message| message.at <= self.now)
        {
            let Some(mut message) = self.messages.pop() else {
                return;
            };
            let (owner, asked_at) = (message.owner, message.asked_at);
            match message.body {
                Body::Request(request) => {
                    if self.now >= self.store_away_until
                        && let Some(answer) = self.serve(owner, request)
                    {
                        self.send(owner, asked_at, &Body::Answer(answer));
                    }
                }
                Body::Answer(answer) => {
                    let process = &mut self.processes[owner.process];
                    if process.owner != owner {
                        continue;
                    }
                    if process.paused_until > self.now {
                        message.at = process.paused_until;
                        message.body = Body::Answer(answer);
                        self.messages.push(message);
                        continue;
                    }
                    process.receive(asked_at, answer, &self.world, &mut self.oracle, self.now);
                }
            }
        }
    }

    /// The store runs a script.
    fn serve(&mut self, owner: Owner, request: Request) -> Option<Answer> {
        let now = self.now;
        let store = match self.processes[owner.process].deposed_until > now {
            true => &mut self.deposed,
            false => &mut self.store,
        };
        match request {
            Request::Lease(LeaseCall::Acquire { seen }) => {
                Some(Answer::Acquired(store.acquire(owner, LEASE, seen, now)))
            }
            Request::Lease(LeaseCall::Renew { epoch }) => {
                Some(Answer::Renewed(store.renew(owner, LEASE, epoch, now)))
            }
            Request::Release { epoch } => {
                store.release(owner, epoch, now);
                None
            }
            Request::Append(append) => {
                let entry = &append.entry;
                self.attacker.observe(entry.position, &entry.bytes);
                let answer = store.append(owner, &append, now);
                let trimmed = std::mem::take(&mut store.trimmed);
                self.oracle
                    .trimmed(entry.position, &trimmed, &self.processes);
                Some(Answer::Appended(entry.position, answer))
            }
            // The answer only feeds the lag, so the model delivers it at once.
            Request::Report(report) => {
                let reported = store.report(report);
                if let Reported::Raised(_) = reported {
                    self.oracle.kinds.note(Kind::EpochRaised);
                }
                let process = &mut self.processes[owner.process];
                if process.owner == owner {
                    process.newest = newest_of(reported);
                }
                None
            }
            Request::Read { after } => Some(Answer::Entries(store.read(after, PAGE))),
        }
    }

    fn step(&mut self) {
        for name in 0..self.processes.len() {
            let process = &mut self.processes[name];
            if !process.runs(self.now) {
                continue;
            }
            let owner = process.owner;
            let requests = process.step(&self.world, &mut self.oracle, self.now);
            for request in requests {
                self.send(owner, self.now, &Body::Request(request));
            }
        }
    }

    /// Once faults have ended, one process leads, and all have the same head.
    fn check_end(&self) -> Result<(), String> {
        let head = self.world.head();
        let leads = |process: &&Process| process.leader.is_some();
        let leaders = self.processes.iter().filter(leads).count();
        if leaders != 1 || !self.store.is_led(self.now) {
            let (store, now) = (&self.store, self.now);
            return Err(format!("{leaders} processes lead at {now:?}: {store:?}"));
        }
        let leader = self.processes.iter().find(leads);
        let last = leader.and_then(|process| process.leader.as_ref()?.last());
        for process in &self.processes {
            let name = process.owner.process;
            if process.head() != Some(head) {
                let number = process.head().map(|id| id.number);
                let refill = process.replica.refill();
                return Err(format!(
                    "process {name} has not caught up: {number:?} of {}, {refill:?}",
                    head.number
                ));
            }
            let applied = process.replica.applied().map(|tip| tip.position);
            if process.leader.is_none() && applied != last {
                return Err(format!(
                    "process {name} has not caught up: {applied:?} of {last:?}"
                ));
            }
            if process.leader.is_none() && process.newest != last {
                let newest = process.newest;
                return Err(format!(
                    "process {name} takes {newest:?} for the newest entry, which is {last:?}"
                ));
            }
        }
        Ok(())
    }
}
