//! The pages of the dashboard.

use actix_web::{
    HttpResponse,
    http::{
        StatusCode,
        header::{self, HeaderValue},
    },
};

use super::{
    admin_request::AdminRequest, admin_state::AdminState, api::ApiError, path_pattern::Verb,
    recent_traffic::RecentTraffic,
};
use crate::http::{ServerState, not_cached};

/// A route of the pages.
#[derive(Debug)]
pub(super) struct PageRoute {
    pub(super) verb: Verb,
    pub(super) path: &'static str,
    /// Whether one has to log in first.
    pub(super) needs_login: bool,
    pub(super) page: Page,
}

/// A page, or a form of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Page {}

/// All routes of the pages.
pub(super) const ROUTES: &[PageRoute] = &[];

/// What pages are made of.
#[derive(Clone, Copy)]
pub(super) struct PageContext<'a> {
    pub(super) server: &'a ServerState,
    pub(super) admin: &'a AdminState,
    pub(super) recent: &'a RecentTraffic,
}

/// Answers a request for a page. A form has been checked to come from a page of this listener; the
/// security headers are added later.
pub(super) async fn serve(_: PageContext<'_>, page: Page, _: &AdminRequest) -> HttpResponse {
    match page {}
}

/// Sends someone who has not logged in to the page for that.
pub(super) fn log_in_first(_: &AdminRequest) -> HttpResponse {
    let mut response = HttpResponse::new(StatusCode::SEE_OTHER);
    let login = HeaderValue::from_static("/login");
    response.headers_mut().insert(header::LOCATION, login);
    response
}

/// The page that says why something is refused.
pub(super) fn refuse(error: &ApiError) -> HttpResponse {
    let sentence = format!("{}\n", error.message);
    not_cached(error.status, "text/plain; charset=utf-8", sentence)
}
