//! Calls that nodes answer.

use std::{pin::pin, time::Instant};

use actix::{Actor, Context, Handler, Supervised};

use super::{now_or_later::NowOrLater, traced::handle_traced};
use crate::{
    admission::{Admission, FairPermit, MAILBOX_CAPACITY},
    budget::CallBudget,
    messages::{
        CountPending, ForwardCall, NodeAnswer, NodeError, QueryError, Reply, SendTransaction,
    },
    upstream::Forwarder,
};

/// Passes calls to nodes; one on every worker's arbiter. Each call has a permit and is paid for
/// from the tenant's budget before a node sees it.
#[derive(Debug)]
pub struct ForwardActor {
    forwarder: Forwarder,
    admission: Admission,
}

impl ForwardActor {
    pub(crate) const fn new(forwarder: Forwarder, admission: Admission) -> Self {
        Self {
            forwarder,
            admission,
        }
    }

    /// Admits what makes this many calls.
    fn admit(&self, budget: &CallBudget, calls: usize) -> Reply<FairPermit> {
        let permit = self.admission.forwarded.take(budget.share())?;
        budget.take_calls(calls, Instant::now())?;
        Ok(permit)
    }

    /// Does the work of an admitted message.
    fn answer<T: 'static>(
        &self,
        permit: Reply<FairPermit>,
        work: impl AsyncFnOnce(Forwarder, FairPermit) -> Reply<T> + 'static,
    ) -> NowOrLater<T> {
        let permit = match permit {
            Ok(permit) => permit,
            Err(error) => return NowOrLater::Now(Err(error)),
        };
        let (forwarder, panics) = (self.forwarder.clone(), self.admission.panics().clone());
        NowOrLater::later(async move {
            let answer = panics.catch_async(pin!(work(forwarder, permit))).await;
            answer.unwrap_or(Err(QueryError::Panicked))
        })
    }
}

impl Actor for ForwardActor {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Context<Self>) {
        ctx.set_mailbox_capacity(MAILBOX_CAPACITY);
    }
}

impl Supervised for ForwardActor {}

handle_traced!(ForwardActor: ForwardCall, SendTransaction, CountPending);

impl Handler<ForwardCall> for ForwardActor {
    type Result = NowOrLater<NodeAnswer>;

    fn handle(&mut self, call: ForwardCall, _: &mut Context<Self>) -> Self::Result {
        let ForwardCall {
            budget,
            method,
            params,
        } = call;
        self.answer(self.admit(&budget, 1), async move |forwarder, permit| {
            forwarder.call(permit, method, params).await
        })
    }
}

impl Handler<SendTransaction> for ForwardActor {
    type Result = NowOrLater<Result<(), NodeError>>;

    fn handle(&mut self, send: SendTransaction, _: &mut Context<Self>) -> Self::Result {
        let SendTransaction {
            budget,
            hash,
            transaction,
        } = send;
        let permit = self.admit(&budget, self.forwarder.nodes());
        self.answer(permit, async move |forwarder, permit| {
            forwarder.send(permit, hash, transaction).await
        })
    }
}

impl Handler<CountPending> for ForwardActor {
    type Result = NowOrLater<Option<u64>>;

    fn handle(&mut self, count: CountPending, _: &mut Context<Self>) -> Self::Result {
        let CountPending { budget, address } = count;
        let permit = self.admit(&budget, self.forwarder.nodes());
        self.answer(permit, async move |forwarder, permit| {
            Ok(forwarder.pending_count(permit, address).await)
        })
    }
}
