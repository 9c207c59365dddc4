use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{
    AdminError, Administration, Operation, Requester, RoleName, SecretText, TenantName, TenantRef,
    requester::detail,
};
use crate::{
    UnixMillis,
    account::{AccountChange, ApiToken},
    audit::{AuditEntry, Verb},
    name::Name,
    secret::Secret,
};

/// Lists all API tokens, sorted by name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ListTokens {}

/// Makes an API token.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CreateToken {
    /// Its name; no other token has it.
    pub name: Name,
    /// What it may do.
    pub role: RoleName,
    /// The tenant of a holder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<TenantRef>,
    /// When it ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires: Option<UnixMillis>,
}

/// Removes an API token.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RemoveToken {
    /// Which one.
    pub name: Name,
}

/// All API tokens.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TokensView {
    /// The tokens.
    pub tokens: Vec<TokenView>,
}

/// An API token.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TokenView {
    /// Its name.
    pub name: Name,
    /// What it may do.
    pub role: RoleName,
    /// The tenant of a holder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<TenantName>,
    /// When it was made.
    pub created: UnixMillis,
    /// When it ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires: Option<UnixMillis>,
}

/// A new API token. This is the only answer that has the token itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NewTokenView {
    /// The token itself.
    pub token: SecretText,
    /// The rest of it.
    #[serde(flatten)]
    pub view: TokenView,
}

impl Operation for ListTokens {
    type Answer = TokensView;

    fn run(
        self,
        administration: &mut Administration,
        by: &Requester,
    ) -> Result<TokensView, AdminError> {
        by.check_admin()?;
        let tokens = administration.accounts.tokens();
        let mut tokens: Vec<_> = tokens
            .map(|token| administration.token_view(token))
            .collect();
        tokens.sort_by(|one, other| one.name.cmp(&other.name));
        Ok(TokensView { tokens })
    }
}

impl Operation for CreateToken {
    type Answer = NewTokenView;

    fn run(
        self,
        administration: &mut Administration,
        by: &Requester,
    ) -> Result<NewTokenView, AdminError> {
        by.check_admin()?;
        let role = administration.role(self.role, self.tenant.as_ref(), by)?;
        if self.expires.is_some_and(|expires| expires <= by.now) {
            let reason = "this time is past: give a later one";
            return Err(AdminError::invalid("expires", reason));
        }
        let made = Secret::generate()?;
        let token = Arc::new(ApiToken {
            name: self.name,
            digest: made.digest(),
            role,
            created: by.now,
            expires: self.expires,
        });
        let changes = administration
            .accounts
            .plan_token(ApiToken::clone(&token))?;
        let entry = token_entry(Verb::TOKEN_CREATE, &token, by);
        administration.commit(Vec::new(), changes, &[entry])?;
        let view = administration.token_view(&token);
        let token = SecretText::from(&made);
        Ok(NewTokenView { token, view })
    }
}

impl Operation for RemoveToken {
    type Answer = ();

    fn run(self, administration: &mut Administration, by: &Requester) -> Result<(), AdminError> {
        by.check_admin()?;
        let Self { name } = self;
        let token = administration
            .accounts
            .tokens()
            .find(|token| token.name == name);
        let Some(token) = token.cloned() else {
            return Err(AdminError::NoToken(name));
        };
        let entry = token_entry(Verb::TOKEN_REMOVE, &token, by);
        let removed = AccountChange::TokenRemoved(name);
        Ok(administration.commit(Vec::new(), vec![removed], &[entry])?)
    }
}

fn token_entry(verb: Verb, token: &ApiToken, by: &Requester) -> AuditEntry {
    let (role, tenant) = RoleName::of(token.role);
    let detail = detail(&[
        ("token", json!(token.name)),
        ("role", json!(role)),
        ("expires", json!(token.expires)),
    ]);
    AuditEntry {
        tenant,
        ..by.entry(verb, detail)
    }
}

impl Administration {
    fn token_view(&self, token: &ApiToken) -> TokenView {
        let (role, tenant) = RoleName::of(token.role);
        TokenView {
            name: token.name.clone(),
            role,
            tenant: tenant.and_then(|tenant| self.tenant_name(tenant)),
            created: token.created,
            expires: token.expires,
        }
    }
}
