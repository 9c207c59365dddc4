use actix::Handler;
use actix_web::{
    HttpResponse,
    http::{
        StatusCode,
        header::{self, HeaderValue},
    },
};
use askama::Template;
use nearhead_tenants::administration::{GetUsage, MeView, Operation, UsageView, WhoAmI};

use super::{
    clock::Clock, form::Form, frame::Frame, loopback_call::reachable, page_context::PageContext,
    page_error::PageError,
};
use crate::{
    admin::{admin_request::AdminRequest, usage_parts::read_usage, visitor::Proof},
    http::{CHALLENGE, not_cached},
    tenants::{Administer, TenantsActor},
};

/// One request for a page, by somebody who has logged in.
pub(super) struct Visit<'a> {
    pub(super) context: PageContext<'a>,
    pub(super) request: &'a AdminRequest,
    /// The parameters of the query.
    pub(super) query: Form,
    /// The fields of the form that was sent.
    pub(super) form: Form,
    pub(super) me: MeView,
    pub(super) clock: Clock,
}

/// What a page answers.
pub(super) type Answer = Result<HttpResponse, PageError>;

impl<'a> Visit<'a> {
    /// Finds out who visits.
    pub(super) async fn begin(
        context: PageContext<'a>,
        request: &'a AdminRequest,
    ) -> Result<Self, PageError> {
        let me = run(context, request, WhoAmI {}).await?;
        Ok(Self {
            context,
            request,
            query: request.parameters().into(),
            form: form(request)?,
            me,
            clock: Clock { now: request.now },
        })
    }

    /// Does something in the name of the visitor.
    pub(super) async fn run<O>(&self, operation: O) -> Result<O::Answer, PageError>
    where
        O: Operation + Send + 'static,
        O::Answer: Send + 'static,
        TenantsActor: Handler<Administer<O>>,
    {
        run(self.context, self.request, operation).await
    }

    /// Asks for usage in the name of the visitor.
    pub(super) async fn usage(&self, usage: GetUsage) -> Result<UsageView, PageError> {
        let answer = read_usage(self.context.admin, usage, self.request.requester()).await;
        answer.map_err(|error| PageError::from(&error))
    }

    /// What is around a page at this place.
    pub(super) fn frame(&self, at: &'static str) -> Frame {
        let proof = self.request.visitor.as_ref().map(|visitor| visitor.proof);
        let can_log_out = matches!(proof, Some(Proof::Login(_)));
        let in_fleet = self.context.server.readiness.fleet.is_some();
        Frame::new(at, &self.me, can_log_out, in_fleet).with_done(self.query.get("done"))
    }

    /// The public listener's URL, for examples.
    pub(super) fn public_url(&self) -> String {
        let admin = self.context.admin;
        match &admin.public_url {
            Some(url) => url.to_string(),
            None => {
                let scheme = if admin.tls.is_some() { "https" } else { "http" };
                format!("{scheme}://{}", reachable(admin.public))
            }
        }
    }

    /// Refuses holders.
    pub(super) fn check_admin(&self) -> Result<(), PageError> {
        match self.frame("").is_admin {
            true => Ok(()),
            false => Err(PageError::not_allowed()),
        }
    }
}

/// The fields of a form that was sent; none for a request without a body.
pub(super) fn form(request: &AdminRequest) -> Result<Form, PageError> {
    match request.form() {
        Some(pairs) => Ok(pairs.into()),
        None if request.body.is_empty() => Ok(Form::default()),
        None => Err(PageError::malformed_form()),
    }
}

async fn run<O>(
    context: PageContext<'_>,
    request: &AdminRequest,
    operation: O,
) -> Result<O::Answer, PageError>
where
    O: Operation + Send + 'static,
    O::Answer: Send + 'static,
    TenantsActor: Handler<Administer<O>>,
{
    let answer = context.admin.run(operation, request.requester()).await;
    answer.map_err(|error| PageError::from(&error))
}

/// A page.
pub(super) fn page(template: &impl Template) -> Answer {
    page_with(StatusCode::OK, template)
}

/// The page of a form again, with what was wrong, or a page that says what failed.
pub(super) fn page_with(status: StatusCode, template: &impl Template) -> Answer {
    match template.render() {
        Ok(text) => {
            let mut response = not_cached(status, "text/html; charset=utf-8", text);
            if status == StatusCode::UNAUTHORIZED {
                let headers = response.headers_mut();
                headers.insert(header::WWW_AUTHENTICATE, CHALLENGE);
            }
            Ok(response)
        }
        Err(error) => {
            tracing::error!(%error, "a page cannot be written");
            Err(PageError::internal())
        }
    }
}

/// Sends the browser to another page after a form: to reload that sends no form again.
pub(super) fn see_other(location: &str) -> HttpResponse {
    let mut response = HttpResponse::new(StatusCode::SEE_OTHER);
    if let Ok(location) = HeaderValue::try_from(location) {
        response.headers_mut().insert(header::LOCATION, location);
    }
    response
}
