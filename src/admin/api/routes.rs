//! The table of the calls.

use nearhead_tenants::administration::{
    CreateKey, CreateTenant, CreateToken, GetKey, GetTenant, ListAccounts, ListAudit, ListKeys,
    ListTenants, ListTokens, RemoveAccount, RemoveKey, RemoveTenant, RemoveToken, RevokeKey,
    RotateKey, UpdateKey, UpdateTenant, WhoAmI,
};

use super::{
    operation::{Run, create_account, run, set_password},
    parameter::{Kind, Parameter},
};
use crate::admin::path_pattern::Verb;

/// With what the paths of all calls begin.
pub(in crate::admin) const ROOT: &str = "/admin/api/";

/// A call.
#[derive(Clone, Copy, Debug)]
pub(in crate::admin) struct ApiRoute {
    pub(in crate::admin) verb: Verb,
    /// The pattern of its path.
    pub(in crate::admin) path: &'static str,
    /// Its name in the OpenAPI document.
    pub(super) name: &'static str,
    /// What it does, as a sentence without a dot.
    pub(super) summary: &'static str,
    pub(super) who: Who,
    pub(super) call: Call,
    /// The parameters of its query.
    pub(super) parameters: &'static [Parameter],
    /// The schema of its body, if it takes one.
    pub(super) body: Option<&'static str>,
    /// Whether it takes `If-Match`, the version of what is to be changed.
    pub(super) is_conditional: bool,
    /// The status of its answer.
    pub(super) status: u16,
    /// The schema of its answer, if that has a body.
    pub(super) answer: Option<&'static str>,
}

/// Who may call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Who {
    /// Everybody who reaches the listener.
    Anyone,
    /// Whoever has logged in. An operation checks more.
    Visitor,
    /// Administrators.
    Admin,
}

/// What a call does.
#[derive(Clone, Copy, Debug)]
pub(super) enum Call {
    LogIn,
    LogOut,
    FirstAccount,
    Overview,
    Nodes,
    Fleet,
    OpenApi,
    /// Usage, which may be asked for as CSV.
    Usage,
    /// An operation, to whose members the path may add one.
    Operation(Run),
}

const SEARCH: Parameter = Parameter {
    name: "search",
    kind: Kind::Text,
    purpose: "Only those whose name has this in it, in upper or lower case; for keys also those of \
              such a tenant, and those that begin with it or whose id does, with four digits or more",
};
const OFFSET: Parameter = Parameter {
    name: "offset",
    kind: Kind::Number,
    purpose: "How many are left out before the first one",
};
const LIMIT: Parameter = Parameter {
    name: "limit",
    kind: Kind::Number,
    purpose: "Most entries of the answer, 1 to 500",
};
const TENANT: Parameter = Parameter {
    name: "tenant",
    kind: Kind::Text,
    purpose: "Only those of this tenant, by its id or name",
};
const KEY: Parameter = Parameter {
    name: "key",
    kind: Kind::Text,
    purpose: "Only those of the key with this id",
};

const LIST_KEYS: &[Parameter] = &[
    TENANT,
    SEARCH,
    Parameter {
        name: "state",
        kind: Kind::Word(&["active", "expired", "revoked"]),
        purpose: "Only those in this state",
    },
    Parameter {
        name: "sort",
        kind: Kind::Word(&["name", "tenant", "created", "lastUsed", "requests24h"]),
        purpose: "By what they are sorted; their name if this is missing",
    },
    Parameter {
        name: "descending",
        kind: Kind::Flag,
        purpose: "Whether the last one comes first",
    },
    OFFSET,
    LIMIT,
];

const GET_USAGE: &[Parameter] = &[
    TENANT,
    KEY,
    Parameter {
        name: "from",
        kind: Kind::Number,
        purpose: "When the range begins",
    },
    Parameter {
        name: "to",
        kind: Kind::Number,
        purpose: "When the range ends; now if this is missing",
    },
    Parameter {
        name: "last",
        kind: Kind::Text,
        purpose: "The range that ends now, such as 15m, 24h or 30d; a day if nothing is given",
    },
    Parameter {
        name: "by",
        kind: Kind::Text,
        purpose: "What rows are grouped by: any of time, key, method and outcome, with commas \
                  between them",
    },
    FORMAT,
];

/// How usage is written.
const FORMAT: Parameter = Parameter {
    name: "format",
    kind: Kind::Word(&["json", "csv"]),
    purpose: "How the answer is written: csv is a table with a row for each row",
};

const LIST_AUDIT: &[Parameter] = &[
    Parameter {
        name: "before",
        kind: Kind::Number,
        purpose: "Only older entries than this: `next` of the page before",
    },
    TENANT,
    KEY,
    LIMIT,
];

const fn route(
    verb: Verb,
    path: &'static str,
    (name, summary): (&'static str, &'static str),
    who: Who,
    call: Call,
) -> ApiRoute {
    ApiRoute {
        verb,
        path,
        name,
        summary,
        who,
        call,
        parameters: &[],
        body: None,
        is_conditional: false,
        status: 204,
        answer: None,
    }
}

/// A call of an operation.
const fn operation(
    verb: Verb,
    path: &'static str,
    documented: (&'static str, &'static str),
    run: Run,
) -> ApiRoute {
    route(verb, path, documented, Who::Visitor, Call::Operation(run))
}

impl ApiRoute {
    const fn query(mut self, parameters: &'static [Parameter]) -> Self {
        self.parameters = parameters;
        self
    }

    const fn takes(mut self, schema: &'static str) -> Self {
        self.body = Some(schema);
        self
    }

    const fn conditional(mut self) -> Self {
        self.is_conditional = true;
        self
    }

    const fn answers(mut self, status: u16, schema: &'static str) -> Self {
        self.status = status;
        self.answer = Some(schema);
        self
    }
}

/// All calls.
#[rustfmt::skip]
pub(in crate::admin) static ROUTES: &[ApiRoute] = &[
    route(Verb::Post, "/admin/api/v1/login",
        ("logIn", "Begin a login, whose cookie the answer sets"), Who::Anyone, Call::LogIn)
        .takes("LogIn").answers(200, "Login"),
    route(Verb::Post, "/admin/api/v1/logout",
        ("logOut", "End the login of the cookie"), Who::Anyone, Call::LogOut),
    route(Verb::Post, "/admin/api/v1/first-account",
        ("claimFirstAccount", "Make the first administrator with the token of the link that is printed at the start, and log in"),
        Who::Anyone, Call::FirstAccount)
        .takes("FirstAccount").answers(200, "Login"),
    operation(Verb::Get, "/admin/api/v1/me",
        ("whoAmI", "Who asks"), run::<WhoAmI>)
        .answers(200, "Me"),
    route(Verb::Get, "/admin/api/v1/overview",
        ("getOverview", "What the service does now"), Who::Admin, Call::Overview)
        .answers(200, "Overview"),
    route(Verb::Get, "/admin/api/v1/nodes",
        ("listNodes", "The nodes that are followed"), Who::Admin, Call::Nodes)
        .answers(200, "Nodes"),
    route(Verb::Get, "/admin/api/v1/fleet",
        ("getFleet", "The processes of the fleet, as each one describes itself; none without a fleet"), Who::Admin, Call::Fleet)
        .answers(200, "Fleet"),
    route(Verb::Get, "/admin/api/v1/openapi.json",
        ("getOpenApi", "This document"), Who::Anyone, Call::OpenApi)
        .answers(200, "OpenApi"),
    operation(Verb::Get, "/admin/api/v1/tenants",
        ("listTenants", "List tenants by name; a holder sees their own"), run::<ListTenants>)
        .query(&[SEARCH, OFFSET, LIMIT]).answers(200, "TenantList"),
    operation(Verb::Post, "/admin/api/v1/tenants",
        ("createTenant", "Make a tenant"), run::<CreateTenant>)
        .takes("CreateTenant").answers(201, "Tenant"),
    operation(Verb::Get, "/admin/api/v1/tenants/{id}",
        ("getTenant", "Look up a tenant by its id or name"), run::<GetTenant>)
        .answers(200, "Tenant"),
    operation(Verb::Patch, "/admin/api/v1/tenants/{id}",
        ("updateTenant", "Change a tenant: what is missing stays, null removes a limit"), run::<UpdateTenant>)
        .takes("UpdateTenant").conditional().answers(200, "Tenant"),
    operation(Verb::Delete, "/admin/api/v1/tenants/{id}",
        ("removeTenant", "Remove a tenant with its keys, its holders and their tokens"), run::<RemoveTenant>),
    operation(Verb::Get, "/admin/api/v1/keys",
        ("listKeys", "List keys; a holder sees those of their tenant"), run::<ListKeys>)
        .query(LIST_KEYS).answers(200, "KeyList"),
    operation(Verb::Post, "/admin/api/v1/keys",
        ("createKey", "Make a key; this answer alone has it"), run::<CreateKey>)
        .takes("CreateKey").answers(201, "NewKey"),
    operation(Verb::Get, "/admin/api/v1/keys/{id}",
        ("getKey", "Look up a key"), run::<GetKey>)
        .answers(200, "Key"),
    operation(Verb::Patch, "/admin/api/v1/keys/{id}",
        ("updateKey", "Change a key: what is missing stays, null removes it"), run::<UpdateKey>)
        .takes("UpdateKey").conditional().answers(200, "ChangedKey"),
    operation(Verb::Post, "/admin/api/v1/keys/{id}/rotate",
        ("rotateKey", "Make a key that takes the place of this one, which ends after an overlap; both have one quota"), run::<RotateKey>)
        .takes("RotateKey").answers(201, "NewKey"),
    operation(Verb::Post, "/admin/api/v1/keys/{id}/revoke",
        ("revokeKey", "Revoke a key for good; its sessions are closed within a second"), run::<RevokeKey>)
        .answers(200, "Key"),
    operation(Verb::Delete, "/admin/api/v1/keys/{id}",
        ("removeKey", "Remove a key that expired or was revoked; its usage still counts for its tenant"), run::<RemoveKey>),
    route(Verb::Get, "/admin/api/v1/usage",
        ("getUsage", "What keys used"), Who::Visitor, Call::Usage)
        .query(GET_USAGE).answers(200, "Usage"),
    operation(Verb::Get, "/admin/api/v1/audit",
        ("listAudit", "Who did what, the newest first"), run::<ListAudit>)
        .query(LIST_AUDIT).answers(200, "Audit"),
    operation(Verb::Get, "/admin/api/v1/accounts",
        ("listAccounts", "List accounts by name"), run::<ListAccounts>)
        .answers(200, "AccountList"),
    operation(Verb::Post, "/admin/api/v1/accounts",
        ("createAccount", "Make an account"), create_account)
        .takes("CreateAccount").answers(201, "Account"),
    operation(Verb::Delete, "/admin/api/v1/accounts/{name}",
        ("removeAccount", "Remove an account, and end its logins"), run::<RemoveAccount>),
    operation(Verb::Put, "/admin/api/v1/accounts/{name}/password",
        ("setPassword", "Change a password, and end the logins; the own one needs the present one"), set_password)
        .takes("SetPassword"),
    operation(Verb::Get, "/admin/api/v1/tokens",
        ("listTokens", "List API tokens by name"), run::<ListTokens>)
        .answers(200, "TokenList"),
    operation(Verb::Post, "/admin/api/v1/tokens",
        ("createToken", "Make an API token; this answer alone has it"), run::<CreateToken>)
        .takes("CreateToken").answers(201, "NewToken"),
    operation(Verb::Delete, "/admin/api/v1/tokens/{name}",
        ("removeToken", "Remove an API token"), run::<RemoveToken>),
];
