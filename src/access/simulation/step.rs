//! One step of a sequence, and what is seen of it.

use rand_chacha::{
    ChaCha8Rng,
    rand_core::{Rng as _, SeedableRng as _},
};

use crate::access::{QuotaKind, Refused};

/// The first moment: an hour before midnight UTC.
pub(super) const START: u64 = 20_000 * 24 * 3_600_000 - 3_600_000;

/// The origins of pages, of which a key allows some.
pub(super) const ORIGINS: [&str; 2] = ["https://a.org", "https://b.org"];

/// What is done. Tenants and keys are numbers, and none is used twice.
#[derive(Clone, Copy, Debug)]
pub(super) enum Step {
    CreateTenant(u16, Limits),
    UpdateTenant(u16, Limits),
    RemoveTenant(u16),
    CreateKey(u16, u16, Settings),
    UpdateKey(u16, Settings),
    /// The key, the one that takes its place, and in how many milliseconds it ends.
    RotateKey(u16, u16, u64),
    RevokeKey(u16),
    Ask(u16, Client, Body),
    Open(u16, Client),
    AskIn(usize, Body),
    Close(usize),
    Wait(u64),
}

/// What a tenant may do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Limits {
    pub(super) quota: Quotas,
    pub(super) sessions: Option<u32>,
}

/// How much; nothing is unlimited. Rates have a burst.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Quotas {
    pub(super) requests: Option<(u32, u32)>,
    pub(super) units: Option<(u32, u32)>,
    pub(super) units_per_day: Option<u64>,
}

/// What a key is narrowed to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Settings {
    pub(super) expires: Option<u64>,
    pub(super) quota: Quotas,
    /// Whether each of [`ORIGINS`] is listed.
    pub(super) origins: [bool; 2],
    pub(super) secret: Option<Beside>,
}

/// A secret beside a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Beside {
    pub(super) secret: u8,
    pub(super) is_required: bool,
    pub(super) exempts: bool,
}

/// Who asks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Client {
    /// One of [`ORIGINS`].
    pub(super) origin: Option<usize>,
    pub(super) secret: Option<u8>,
}

/// What is asked.
#[derive(Clone, Copy, Debug)]
pub(super) struct Body {
    pub(super) requests: u32,
    /// Units that its answer costs beyond one for each request.
    pub(super) more: u64,
}

/// What is seen of a step.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Seen {
    pub(super) answer: Answer,
    /// The sessions that it ended, and why.
    pub(super) ended: Vec<(usize, Refused)>,
}

/// What a step is answered with.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// Of a command: whether it is done.
    Commanded(bool),
    /// What is left of the scarcest bucket: of how many, how many, and when it is full.
    LetIn(Option<(u32, u32, u64)>),
    /// There is no such session.
    NoSession,
    Refused(Refused),
    /// A quota, how much it allows, and after how many seconds to try again.
    Exceeded(QuotaKind, u64, u64),
    /// Too many sessions are open.
    NoRoom,
    /// Nothing was asked.
    Nothing,
}

/// Random steps; equal seeds make equal ones.
pub(super) struct Steps {
    random: ChaCha8Rng,
    tenants: u16,
    keys: u16,
    sessions: usize,
    now: u64,
}

impl Steps {
    pub(super) fn new(seed: u64) -> Self {
        Self {
            random: ChaCha8Rng::seed_from_u64(seed),
            tenants: 0,
            keys: 0,
            sessions: 0,
            now: START,
        }
    }

    pub(super) fn next(&mut self) -> Step {
        match self.below(100) {
            _ if self.tenants == 0 => self.create_tenant(),
            _ if self.keys == 0 => self.create_key(),
            0..3 => self.create_tenant(),
            3..9 => self.create_key(),
            9..14 => Step::UpdateTenant(self.tenant(), self.limits()),
            14..15 => Step::RemoveTenant(self.tenant()),
            15..22 => Step::UpdateKey(self.key(), self.settings()),
            22..25 => {
                let (old, ends) = (self.key(), self.below(3) * 700);
                self.keys += 1;
                Step::RotateKey(old, self.keys - 1, ends)
            }
            25..27 => Step::RevokeKey(self.key()),
            27..55 => Step::Ask(self.key(), self.client(), self.body()),
            55..65 => {
                self.sessions += 1;
                Step::Open(self.key(), self.client())
            }
            65..77 => Step::AskIn(self.session(), self.body()),
            77..80 => Step::Close(self.session()),
            _ => {
                let choices = [1, 150, 400, 1_000, 2_500, 61_000, 3_600_000, 20 * 3_600_000];
                // Long waits are rare.
                let most = if self.below(4) == 0 { 8 } else { 5 };
                let millis = choices[self.below(most) as usize];
                self.now += millis;
                Step::Wait(millis)
            }
        }
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.random.next_u64() % bound
    }

    fn maybe<T>(&mut self, value: impl FnOnce(&mut Self) -> T) -> Option<T> {
        (self.below(2) == 0).then(|| value(self))
    }

    fn create_tenant(&mut self) -> Step {
        self.tenants += 1;
        Step::CreateTenant(self.tenants - 1, self.limits())
    }

    fn create_key(&mut self) -> Step {
        self.keys += 1;
        Step::CreateKey(self.keys - 1, self.tenant(), self.settings())
    }

    fn tenant(&mut self) -> u16 {
        let back = self.back(2);
        self.tenants.saturating_sub(back)
    }

    fn key(&mut self) -> u16 {
        let back = self.back(4);
        self.keys.saturating_sub(back)
    }

    fn session(&mut self) -> usize {
        let back = self.back(4);
        self.sessions.saturating_sub(back.into())
    }

    /// One of so many that are the newest, or rarely 0, which is one that does not exist yet.
    fn back(&mut self, newest: u64) -> u16 {
        match self.below(12) {
            0 => 0,
            _ => 1 + self.below(newest) as u16,
        }
    }

    fn limits(&mut self) -> Limits {
        Limits {
            quota: self.quotas(),
            sessions: self.maybe(|this| this.below(3) as u32),
        }
    }

    fn quotas(&mut self) -> Quotas {
        let rate = |this: &mut Self| (1 + this.below(4) as u32, 1 + this.below(6) as u32);
        let units = |this: &mut Self| (1 + this.below(20) as u32, 1 + this.below(30) as u32);
        Quotas {
            requests: self.maybe(rate),
            units: self.maybe(units),
            units_per_day: self.maybe(|this| 1 + this.below(60)),
        }
    }

    fn settings(&mut self) -> Settings {
        let now = self.now;
        Settings {
            expires: match self.below(4) {
                0 => Some(now + self.below(8) * 1_300),
                _ => None,
            },
            quota: match self.below(2) {
                0 => Quotas::default(),
                _ => self.quotas(),
            },
            origins: match self.below(2) {
                0 => [false; 2],
                _ => [self.below(2) == 0, self.below(2) == 0],
            },
            secret: match self.below(3) {
                0 => Some(Beside {
                    secret: self.below(2) as u8,
                    is_required: self.below(2) == 0,
                    exempts: self.below(2) == 0,
                }),
                _ => None,
            },
        }
    }

    fn client(&mut self) -> Client {
        Client {
            origin: self.maybe(|this| this.below(2) as usize),
            secret: self.maybe(|this| this.below(2) as u8),
        }
    }

    fn body(&mut self) -> Body {
        Body {
            requests: match self.below(5) {
                0 => 1 + self.below(8) as u32,
                _ => 1,
            },
            more: match self.below(3) {
                0 => self.below(25),
                _ => 0,
            },
        }
    }
}
