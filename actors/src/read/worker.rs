//! The read actors of one worker, or of the thread of its large bodies.

use actix::{Addr, Supervisor};

use super::{
    block_store_actor::BlockStoreActor, call_actor::CallActor, forward_actor::ForwardActor,
    log_query_actor::LogQueryActor, proof_actor::ProofActor, raw_actor::RawActor,
    resources::ReadResources,
};
use crate::{
    admission::{AdmissionPermit, CostClass, RequestTurns, WorkerAdmission},
    messages::Reply,
    share::Share,
};

/// Addresses of one worker's read actors, and its admission.
#[derive(Clone, Debug)]
pub struct Worker {
    /// Blocks, transactions, receipts, uncles.
    pub blocks: Addr<BlockStoreActor>,
    /// Logs.
    pub logs: Addr<LogQueryActor>,
    /// State and its proofs.
    pub proofs: Addr<ProofActor>,
    /// Calls of contracts.
    pub calls: Addr<CallActor>,
    /// Blocks, receipts and transactions in RLP.
    pub raw: Addr<RawActor>,
    /// Calls that nodes answer; `None` if none is forwarded.
    pub forwarded: Option<Addr<ForwardActor>>,
    admission: WorkerAdmission,
    resources: ReadResources,
}

impl Worker {
    /// Starts the read actors on the current arbiter.
    #[must_use]
    pub fn start(resources: &ReadResources) -> Self {
        Self {
            blocks: Supervisor::start({
                let resources = resources.clone();
                move |_| BlockStoreActor::new(resources)
            }),
            logs: Supervisor::start({
                let resources = resources.clone();
                move |_| LogQueryActor::new(resources)
            }),
            proofs: Supervisor::start({
                let resources = resources.clone();
                move |_| ProofActor::new(resources)
            }),
            calls: Supervisor::start({
                let resources = resources.clone();
                move |_| CallActor::new(resources)
            }),
            raw: Supervisor::start({
                let resources = resources.clone();
                move |_| RawActor::new(resources)
            }),
            forwarded: resources.forwarder.clone().map(|forwarder| {
                let admission = resources.admission.clone();
                Supervisor::start(move |_| ForwardActor::new(forwarder, admission))
            }),
            admission: resources.admission.add_worker(),
            resources: resources.clone(),
        }
    }

    /// Admits a tenant's request: a cheap one waits for its turn, a measured one is refused when
    /// too many are in progress.
    ///
    /// # Errors
    /// [`QueryError::Overloaded`](crate::messages::QueryError::Overloaded): not admitted.
    pub async fn admit(&self, class: CostClass, share: Share) -> Reply<AdmissionPermit> {
        self.admission.admit(class, share).await
    }

    /// Waits until a body of this many bytes has its turn to be parsed. It must be called on the
    /// worker's arbiter.
    ///
    /// # Errors
    /// [`QueryError::Overloaded`](crate::messages::QueryError::Overloaded): so many of the tenant's
    /// bodies wait that this one would wait for too long.
    pub async fn body_turn(&self, share: Share, bytes: usize) -> Reply<()> {
        self.admission.body_turns.next(share, bytes).await
    }

    /// The turns of its small requests. `is_alone` says whether one tenant has all its connections.
    #[must_use]
    pub fn request_turns(&self, is_alone: impl Fn() -> bool + 'static) -> RequestTurns {
        self.admission.request_turns(Box::new(is_alone))
    }

    /// The resources shared with the other workers.
    #[must_use]
    pub const fn resources(&self) -> &ReadResources {
        &self.resources
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic)]
mod tests {
    use actix::{Actor, Handler, Message, dev::ToEnvelope};

    use super::*;
    use crate::{
        admission::Panics,
        messages::QueryError,
        read::{
            ask::ask,
            traced::{Traced, handle_traced},
        },
    };

    #[derive(Message)]
    #[rtype(result = "Reply<()>")]
    struct Panic;

    #[derive(Message)]
    #[rtype(result = "Reply<u32>")]
    struct Echo(u32);

    macro_rules! can_panic {
        ($($actor:ident).+, $panics:expr) => {
            impl Handler<Panic> for $($actor).+ {
                type Result = Reply<()>;

                fn handle(&mut self, _: Panic, ctx: &mut Self::Context) -> Reply<()> {
                    let panics: fn(&Self) -> &Panics = $panics;
                    panics(self).guard(ctx, || panic!("on purpose"))
                }
            }

            impl Handler<Echo> for $($actor).+ {
                type Result = Reply<u32>;

                fn handle(&mut self, echo: Echo, _: &mut Self::Context) -> Reply<u32> {
                    Ok(echo.0)
                }
            }

            handle_traced!($($actor).+: Echo);
        };
    }

    can_panic!(BlockStoreActor, |actor| actor.panics());
    can_panic!(LogQueryActor, |actor| actor.panics());
    can_panic!(ProofActor, |actor| actor.panics());
    can_panic!(CallActor, |actor| actor.panics());
    can_panic!(RawActor, |actor| actor.panics());

    async fn check<A>(actor: &Addr<A>)
    where
        A: Actor + Handler<Panic> + Handler<Echo> + Handler<Traced<Echo>>,
        A::Context: ToEnvelope<A, Panic> + ToEnvelope<A, Echo> + ToEnvelope<A, Traced<Echo>>,
    {
        // All of them are in the mailbox before the first is handled.
        let (before, first, between, second, after) = (
            actor.send(Echo(1)),
            actor.send(Panic),
            actor.send(Echo(2)),
            actor.send(Panic),
            actor.send(Echo(3)),
        );
        assert!(matches!(before.await.unwrap(), Ok(1)));
        assert!(matches!(first.await.unwrap(), Err(QueryError::Panicked)));
        assert!(matches!(between.await.unwrap(), Ok(2)));
        assert!(matches!(second.await.unwrap(), Err(QueryError::Panicked)));
        assert!(matches!(after.await.unwrap(), Ok(3)));
        assert!(matches!(ask(actor, Echo(4)).await, Ok(4)));
    }

    #[actix::test]
    async fn a_panic_answers_its_own_message_and_no_other() {
        let resources = ReadResources::start(1, 1 << 20, None).unwrap();
        let worker = Worker::start(&resources);
        check(&worker.blocks).await;
        check(&worker.logs).await;
        check(&worker.proofs).await;
        check(&worker.calls).await;
        check(&worker.raw).await;
        assert_eq!(resources.admission.panics().total(), 10);
    }
}
