//! Answers a call.

use actix_web::{
    HttpResponse,
    http::{
        StatusCode,
        header::{self, HeaderValue},
    },
};
use nearhead_tenants::administration::GetUsage;
use serde_json::{Map, Value, json};

use super::{
    api_error::ApiError,
    login, openapi,
    parameter::members,
    routes::{ApiRoute, Call, Who},
    usage_csv::usage_csv,
};
use crate::{
    admin::{
        admin_request::AdminRequest,
        admin_state::AdminState,
        fleet_view::FleetView,
        overview::{NodeView, OverviewView},
        recent_traffic::RecentTraffic,
        usage_parts::read_usage,
        visitor::Visitor,
    },
    http::{ServerState, not_cached},
};

/// With what calls are answered.
#[derive(Clone, Copy)]
pub(in crate::admin) struct ApiContext<'a> {
    pub(in crate::admin) server: &'a ServerState,
    pub(in crate::admin) admin: &'a AdminState,
    pub(in crate::admin) recent: &'a RecentTraffic,
}

/// Answers a call. A change that a browser asks for has been checked to come from a page of this
/// listener.
pub(in crate::admin) async fn serve(
    context: ApiContext<'_>,
    route: &ApiRoute,
    request: &AdminRequest,
) -> HttpResponse {
    let answer = answer(context, route, request).await;
    let mut response = answer.unwrap_or_else(|error| error.response());
    let cached = HeaderValue::from_static("no-store");
    response.headers_mut().insert(header::CACHE_CONTROL, cached);
    response
}

async fn answer(
    context: ApiContext<'_>,
    route: &ApiRoute,
    request: &AdminRequest,
) -> Result<HttpResponse, ApiError> {
    check_who(route.who, request.visitor.as_ref())?;
    let mut input = members(route.parameters, &request.query)?;
    input.append(&mut body(route, request)?);
    if let Some(name) = parameter_of(route.path) {
        let given = input.insert(name.to_owned(), request.captured.clone().into());
        if given.is_some() {
            let message = format!("{name} is in the path, leave it out of the body");
            return Err(ApiError::invalid(message));
        }
    }
    if let Some(version) = version(route, request, &input)? {
        input.insert(IF_VERSION.to_owned(), version.into());
    }
    let ApiContext {
        server,
        admin,
        recent,
    } = context;
    let mut etag = None;
    let json = match route.call {
        Call::LogIn => return login::begin(admin, request, input).await,
        Call::LogOut => return login::end(admin, request).await,
        Call::FirstAccount => return login::first_account(admin, request, input).await,
        Call::OpenApi => openapi::DOCUMENT.clone(),
        Call::Overview => json_of(&OverviewView::of(server, &admin.nodes, recent))?,
        Call::Nodes => json_of(&json!({"nodes": NodeView::all(server, &admin.nodes)}))?,
        Call::Fleet => json_of(&FleetView::of(server))?,
        Call::Usage => {
            let format = input.remove("format");
            let usage: GetUsage = login::read(input)?;
            let usage = read_usage(admin, usage, request.requester()).await?;
            if format == Some("csv".into()) {
                return Ok(csv(usage_csv(&usage)));
            }
            json_of(&usage)?
        }
        Call::Operation(run) => {
            let answer = run(admin.clone(), request.requester(), input).await?;
            etag = etag_of(&answer);
            answer.to_string()
        }
    };
    let status = StatusCode::from_u16(route.status).unwrap_or(StatusCode::OK);
    let mut response = match route.answer {
        Some(_) => not_cached(status, "application/json", json),
        None => HttpResponse::new(status),
    };
    if let Some(etag) = etag {
        response.headers_mut().insert(header::ETAG, etag);
    }
    Ok(response)
}

/// The member of an operation that the header `If-Match` is.
const IF_VERSION: &str = "ifVersion";

/// The version that is to be changed, by the header `If-Match`; `None` if any is.
fn version(
    route: &ApiRoute,
    request: &AdminRequest,
    input: &Map<String, Value>,
) -> Result<Option<String>, ApiError> {
    if input.contains_key(IF_VERSION) {
        let message = "the version is the header If-Match, leave it out of the body";
        return Err(ApiError::invalid(message));
    }
    let Some(header) = request.if_match.as_deref().map(str::trim) else {
        return Ok(None);
    };
    if !route.is_conditional {
        return Err(ApiError::invalid("this call takes no If-Match"));
    }
    if header == "*" {
        return Ok(None);
    }
    let weak = header.strip_prefix("W/");
    let quoted = weak
        .unwrap_or(header)
        .strip_prefix('"')
        .and_then(|rest| rest.strip_suffix('"'));
    match quoted.filter(|tag| !tag.contains(['"', ','])) {
        // A weak one is well-formed, and matches nothing (RFC 9110 §13.1.1): no version is like it.
        Some(_) if weak.is_some() => Ok(Some(header.to_owned())),
        Some(tag) => Ok(Some(tag.to_owned())),
        None => Err(ApiError::invalid(
            "If-Match is one ETag of an answer, in quotation marks, or *",
        )),
    }
}

/// The header `ETag` of an answer that has a version.
fn etag_of(answer: &Value) -> Option<HeaderValue> {
    let version = answer.get("version")?.as_str()?;
    HeaderValue::try_from(format!("\"{version}\"")).ok()
}

/// The name in the braces of a pattern.
fn parameter_of(pattern: &str) -> Option<&str> {
    let (_, after) = pattern.split_once('{')?;
    Some(after.split_once('}')?.0)
}

/// A table that browsers save as a file.
fn csv(text: String) -> HttpResponse {
    let mut response = not_cached(StatusCode::OK, "text/csv; charset=utf-8", text);
    let file = HeaderValue::from_static("attachment; filename=\"usage.csv\"");
    response
        .headers_mut()
        .insert(header::CONTENT_DISPOSITION, file);
    response
}

fn check_who(who: Who, visitor: Option<&Visitor>) -> Result<(), ApiError> {
    match (who, visitor) {
        (Who::Anyone, _) | (Who::Visitor, Some(_)) => Ok(()),
        (Who::Admin, Some(visitor)) if visitor.is_admin() => Ok(()),
        (Who::Admin, Some(_)) => Err(ApiError::NOT_ALLOWED),
        (Who::Visitor | Who::Admin, None) => Err(ApiError::NOT_LOGGED_IN),
    }
}

/// The members of a body; none without one.
fn body(route: &ApiRoute, request: &AdminRequest) -> Result<Map<String, Value>, ApiError> {
    if request.body.is_empty() {
        return Ok(Map::new());
    }
    if route.body.is_none() {
        return Err(ApiError::invalid("this call takes no body"));
    }
    if request.content_type != "application/json" {
        return Err(ApiError::NOT_JSON);
    }
    let members = serde_json::from_slice(&request.body);
    members.map_err(|error| ApiError::invalid(format!("the body is no JSON object: {error}")))
}

fn json_of(view: &impl serde::Serialize) -> Result<String, ApiError> {
    serde_json::to_string(view).map_err(|_| ApiError::INTERNAL)
}
