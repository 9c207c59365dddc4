use nearhead_tenants::administration::{AuthorView, MeView, RoleName};

use super::show;

/// The page of the fleet, which processes without one do not have.
const FLEET: &str = "/fleet";

/// The pages that administrators find in every page.
const OF_ADMINISTRATORS: [(&str, &str); 9] = [
    ("/", "Overview"),
    ("/keys", "Keys"),
    ("/tenants", "Tenants"),
    ("/usage", "Usage"),
    ("/nodes", "Nodes"),
    (FLEET, "Fleet"),
    ("/audit", "Audit"),
    ("/accounts", "Accounts"),
    ("/try", "Try it"),
];

/// The pages that holders find in every page.
const OF_HOLDERS: [(&str, &str); 4] = [
    ("/keys", "Keys"),
    ("/usage", "Usage"),
    ("/audit", "Audit"),
    ("/try", "Try it"),
];

/// What is around the content of a page.
#[derive(Clone, Debug)]
pub(super) struct Frame {
    /// The page's place among [`Self::places`].
    at: &'static str,
    /// Who looks at it.
    pub(super) who: String,
    /// What they may do.
    pub(super) role: String,
    pub(super) is_admin: bool,
    /// Whether they have logged in here, and not at a proxy.
    pub(super) can_log_out: bool,
    /// Whether the process is in a fleet.
    in_fleet: bool,
    /// What was done, or went wrong.
    pub(super) notice: Option<Notice>,
}

/// What was done, or went wrong.
#[derive(Clone, Debug)]
pub(super) struct Notice {
    /// `good` or `bad`.
    pub(super) kind: &'static str,
    pub(super) text: String,
}

impl Frame {
    /// That of a page at this place, for somebody.
    pub(super) fn new(at: &'static str, me: &MeView, can_log_out: bool, in_fleet: bool) -> Self {
        Self {
            at,
            who: match &me.author {
                AuthorView::Account(name) | AuthorView::Token(name) => name.to_string(),
                other => show::author(other),
            },
            role: show::role(&me.role, &me.tenant),
            is_admin: me.role == RoleName::Admin,
            can_log_out,
            in_fleet,
            notice: None,
        }
    }

    /// With what went wrong.
    pub(super) fn with_error(mut self, error: Option<String>) -> Self {
        self.notice = error
            .map(|text| Notice { kind: "bad", text })
            .or(self.notice);
        self
    }

    /// With what was done, which the address names after a form was sent: only what is known is
    /// shown.
    pub(super) fn with_done(mut self, done: &str) -> Self {
        let text = match done {
            "saved" => "Saved. It is in force.",
            "revoked" => "The key is revoked. Its open sessions are being closed.",
            "key-removed" => "The key is removed.",
            "tenant-made" => "The tenant is made. Create a key for it.",
            "tenant-removed" => "The tenant and its keys are removed.",
            "account-made" => "The account is made. Give its owner the name and the password.",
            "account-removed" => "The account is removed, and its log-ins have ended.",
            "token-removed" => "The API token is removed.",
            "password" => "The password is set.",
            "secret-removed" => "The secret is removed.",
            _ => return self,
        };
        self.notice = Some(Notice {
            kind: "good",
            text: text.to_owned(),
        });
        self
    }

    /// Path and name of the pages that one may go to.
    pub(super) fn places(&self) -> impl Iterator<Item = &'static (&'static str, &'static str)> {
        let places: &'static [(&str, &str)] = match self.is_admin {
            true => &OF_ADMINISTRATORS,
            false => &OF_HOLDERS,
        };
        let in_fleet = self.in_fleet;
        let is_there = move |(path, _): &&(&str, &str)| in_fleet || *path != FLEET;
        places.iter().filter(is_there)
    }

    pub(super) fn is_at(&self, path: &str) -> bool {
        self.at == path
    }
}
