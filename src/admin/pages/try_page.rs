use actix_web::http::StatusCode;
use askama::Template;
use nearhead_tenants::account::Role;
use serde_json::Value;

use super::{
    form::Form,
    frame::Frame,
    loopback_call::{LoopbackAnswer, LoopbackCall},
    method_form::{Field, MethodForm, Methods},
    page_error::PageError,
    show,
    visit::{Answer, Visit, page_with},
};
use crate::admin::assets;

/// The method that is shown at first.
const FIRST: &str = "eth_getBlockByNumber";

/// Most characters of an answer that are shown: a page with more is slow.
const CHARS_SHOWN: usize = 200_000;

#[derive(Template)]
#[template(path = "try.html")]
struct TryPage {
    frame: Frame,
    /// Names of methods, by what they belong to.
    groups: Vec<(&'static str, Vec<String>)>,
    method: MethodForm,
    form: Form,
    answer: Option<Shown>,
}

/// An answer, as the page shows it.
struct Shown {
    status: u16,
    is_good: bool,
    units: String,
    time: String,
    size: String,
    text: String,
    /// Whether there is more of it.
    is_cut: bool,
    curl: String,
}

/// The form of a method.
pub(super) fn show(visit: &Visit<'_>) -> Answer {
    let (methods, method) = chosen(visit)?;
    let form = method.filled();
    show_with(visit, &methods, method, form, (None, None))
}

/// Calls a method, and shows its answer.
pub(super) async fn call(visit: &Visit<'_>) -> Answer {
    let (methods, method) = chosen(visit)?;
    let form = visit.form.clone();
    let (answer, error) = match try_call(visit, &method).await {
        Ok(answer) => (Some(answer), None),
        Err(error) => (None, Some(error)),
    };
    show_with(visit, &methods, method, form, (answer, error))
}

fn chosen(visit: &Visit<'_>) -> Result<(Methods, MethodForm), PageError> {
    let methods = Methods::of(&visit.context.server.openrpc).ok_or_else(PageError::internal)?;
    let name = match visit.query.get("method") {
        "" => FIRST,
        name => name,
    };
    let method = methods.form(name);
    let method = method.ok_or_else(|| PageError::unknown("There is no such method."))?;
    Ok((methods, method))
}

fn show_with(
    visit: &Visit<'_>,
    methods: &Methods,
    method: MethodForm,
    form: Form,
    (answer, error): (Option<Shown>, Option<PageError>),
) -> Answer {
    let status = error.as_ref().map_or(StatusCode::OK, |error| error.status);
    let frame = visit.frame("/try");
    let page = TryPage {
        frame: frame.with_error(error.map(|error| error.to_string())),
        groups: [
            ("Core methods", methods.tagged("core")),
            ("Companion methods", methods.tagged("companion")),
            ("Forwarded methods", methods.tagged("forwarded")),
        ]
        .into_iter()
        .filter(|(_, methods)| !methods.is_empty())
        .collect(),
        method,
        form,
        answer,
    };
    page_with(status, &page)
}

async fn try_call(visit: &Visit<'_>, method: &MethodForm) -> Result<Shown, PageError> {
    let body = method.request(&visit.form)?.to_string();
    let key = visit.form.get("key");
    check_key(visit, key)?;
    let settings = &visit.context.server.settings;
    let from = visit.request.from;
    let visitor = from.and_then(|from| settings.visitor_header.line(from));
    let call = LoopbackCall {
        to: visit.context.admin.public,
        own: visit.context.admin.own.clone(),
        tls: visit.context.admin.tls.clone(),
        key: key.to_owned(),
        beside: visit.form.get("secret").to_owned(),
        body,
        // Without it, the call would be judged as one of this machine.
        visitor: visitor.ok_or_else(PageError::internal)?,
    };
    let answer = call.make().await.map_err(|error| {
        PageError::invalid(match error.kind() {
            std::io::ErrorKind::InvalidInput => "Key: this cannot be a key, or a secret beside it.",
            std::io::ErrorKind::TimedOut => "The public listener did not answer in time.",
            _ => "The public listener cannot be reached from this machine.",
        })
    })?;
    Ok(shown(answer, curl(&visit.public_url(), &call)))
}

/// Checks that the visitor may try a key. One that lets nobody in is refused by the call.
fn check_key(visit: &Visit<'_>, key: &str) -> Result<(), PageError> {
    let request = visit.request;
    let Some(key) = visit.context.server.access.resolve(key, request.now) else {
        return Ok(());
    };
    let visitor = request.visitor.as_ref();
    let role = visitor.and_then(|visitor| visitor.identity.role);
    let is_admin = role == Some(Role::Admin);
    if !is_admin && role != Some(Role::Holder(key.record.tenant)) {
        let message = "Key: it is none of your tenant’s, so you cannot try it here.";
        return Err(PageError::forbidden(message));
    }
    let is_local = request
        .from
        .is_some_and(|from| from.to_canonical().is_loopback());
    match is_admin || is_local || key.local_only().is_none() {
        true => Ok(()),
        false => Err(PageError::forbidden(
            "Key: it serves the machine of nearhead alone.",
        )),
    }
}

fn shown(answer: LoopbackAnswer, curl: String) -> Shown {
    let parsed = serde_json::from_str::<Value>(&answer.body);
    let is_good = parsed
        .as_ref()
        .is_ok_and(|body| body.get("error").is_none());
    let pretty = parsed.map_or_else(|_| answer.body.clone(), |body| format!("{body:#}"));
    let text: String = pretty.chars().take(CHARS_SHOWN).collect();
    Shown {
        status: answer.status,
        is_good: is_good && answer.status == 200,
        units: answer.units.unwrap_or_else(|| "–".to_owned()),
        time: show::duration(answer.took.as_secs_f64() * 1e3),
        size: show::bytes(answer.body.len() as u64),
        is_cut: answer.is_cut || text.len() < pretty.len(),
        text,
        curl,
    }
}

/// The same call with curl. The key is a variable of the shell: pages show no keys but new ones.
fn curl(url: &str, call: &LoopbackCall) -> String {
    let body = call.body.replace('\'', r"'\''");
    let secret = match call.beside.is_empty() {
        true => "",
        false => " -H \"authorization: Bearer $SECRET\"",
    };
    format!("curl -si {url}/v3/$KEY{secret} -H 'content-type: application/json' -d '{body}'")
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn a_shell_reads_the_line_as_it_is_meant() {
        let call = LoopbackCall {
            to: "127.0.0.1:8545".parse().unwrap(),
            own: Default::default(),
            tls: None,
            key: "abc".to_owned(),
            beside: String::new(),
            body: r#"{"params":["'; rm -rf /"]}"#.to_owned(),
            visitor: String::new(),
        };
        assert_eq!(
            curl("http://127.0.0.1:8545", &call),
            r#"curl -si http://127.0.0.1:8545/v3/$KEY -H 'content-type: application/json' -d '{"params":["'\''; rm -rf /"]}'"#
        );
    }
}
