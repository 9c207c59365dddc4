//! Random sequences of everything that is done to keys and with them, in simulated time, against a
//! plain model: who is let in, what is charged, and what usage says.
//!
//! | file | content |
//! |---|---|
//! | `step` | what is done, and what is seen of it |
//! | `model`, `bucket` | the plain model |
//! | `rule` | the rules of the model, each of which may be broken |
//! | `service` | the real code, with simulated time |

use std::{collections::BTreeMap, time::Instant};

use nearhead_chain::campaign;

use self::{
    model::Model,
    rule::Rule,
    service::{SimulatedService, key_id},
    step::{Answer, Seen, Steps},
};
use super::{QuotaKind, Refused};

mod bucket;
mod model;
mod rule;
mod service;
mod step;

/// Steps of one sequence.
const STEPS: usize = 50;

/// What was seen in all sequences, and how often.
type Kinds = BTreeMap<&'static str, u64>;

/// Runs one sequence; returns where the model and the service differ.
fn run(seed: u64, broken: Option<Rule>, kinds: &mut Kinds) -> Result<(), String> {
    let (mut steps, mut model) = (Steps::new(seed), Model::new(broken));
    let mut service = SimulatedService::new(Instant::now());
    let mut taken = Vec::new();
    for _ in 0..STEPS {
        let step = steps.next();
        taken.push(step);
        let (expected, found) = (model.take(step), service.take(step));
        for kind in kinds_of(&found) {
            *kinds.entry(kind).or_default() += 1;
        }
        if found != expected {
            let steps = taken.iter().map(|step| format!("  {step:?}\n"));
            let steps: String = steps.collect();
            return Err(format!(
                "seed {seed}, after\n{steps}the service: {found:?}\nthe model:   {expected:?}"
            ));
        }
    }
    let usage = model.usage.iter();
    let expected: BTreeMap<_, _> = usage
        .map(|(&(day, key, outcome), sums)| ((day, key_id(key), outcome.to_owned()), *sums))
        .collect();
    let found = service.all_usage();
    if found != expected {
        return Err(format!("seed {seed}: usage is {found:?}, not {expected:?}"));
    }
    for (tenant, expected) in model.units_of_tenants() {
        let found = service.units_of_tenant(tenant);
        if found != expected {
            return Err(format!(
                "seed {seed}: tenant {tenant} used {found}, not {expected}"
            ));
        }
    }
    Ok(())
}

/// What is seen of a step, in a word.
fn kinds_of(seen: &Seen) -> impl Iterator<Item = &'static str> {
    let answer = match &seen.answer {
        Answer::Commanded(true) => "done",
        Answer::Commanded(false) => "not done",
        Answer::LetIn(None) => "let in",
        Answer::LetIn(Some(_)) => "let in, with a rate",
        Answer::NoSession => "no session",
        Answer::Refused(refused) => kind_of(*refused),
        Answer::Exceeded(QuotaKind::Requests, ..) => "requests",
        Answer::Exceeded(QuotaKind::Units, ..) => "units",
        Answer::Exceeded(QuotaKind::UnitsOfDay, ..) => "units of the day",
        Answer::NoRoom => "no room",
        Answer::Nothing => "nothing",
    };
    let ended = seen
        .ended
        .iter()
        .map(|(_, refused)| match kind_of(*refused) {
            "unknown key" => "session of an unknown key",
            "wrong secret" => "session of a wrong secret",
            _ => "session of another origin",
        });
    std::iter::once(answer).chain(ended)
}

fn kind_of(refused: Refused) -> &'static str {
    match refused {
        Refused::UnknownKey => "unknown key",
        Refused::WrongSecret => "wrong secret",
        Refused::NotListed(_) => "another origin",
        Refused::Token(_) | Refused::NotLocal(_) => "impossible",
    }
}

#[test]
fn the_service_agrees_with_the_model() {
    let mut kinds = Kinds::new();
    for seed in 0..campaign::rounds(10_000, 100_000) {
        if let Err(difference) = run(seed, None, &mut kinds) {
            panic!("{difference}");
        }
    }
    // Whatever can be seen was seen often.
    let rarest = kinds.values().min();
    assert!(kinds.len() == 16 && rarest >= Some(&100), "{kinds:?}");
}

/// A model that breaks a rule differs from the service, so a service that broke it would differ
/// from the model.
#[test]
fn every_broken_rule_is_noticed() {
    for rule in Rule::ALL {
        let noticed = (0..10_000).find(|seed| run(*seed, Some(rule), &mut Kinds::new()).is_err());
        assert!(noticed.is_some(), "{rule:?}");
    }
}
