use nearhead_tenants::administration::{
    CreateAccount, CreateKey, CreateTenant, CreateToken, GetKey, GetTenant, GetUsage, ListAccounts,
    ListKeys, ListTenants, ListTokens, Operation, RemoveAccount, RemoveKey, RemoveTenant,
    RemoveToken, RevokeKey, RotateKey, SetPassword, UpdateKey, UpdateTenant,
};
use reqwest::Method;
use serde::{Serialize, de::DeserializeOwned};

/// Where the admin API is, beneath the URL of the listener.
pub(super) const ROOT: &str = "/admin/api/v1";

/// An operation that a running service does, too: the verb and the path by which it is asked.
pub(super) trait ApiCall:
    Operation<Answer: DeserializeOwned + Serialize> + Serialize
{
    /// The verb.
    const VERB: Method;

    /// The path beneath [`ROOT`]. A member of the operation stands in the place of its name in
    /// braces; the others are the query of a GET, or else the body.
    const PATH: &'static str;
}

macro_rules! calls {
    ($($operation:ident = $verb:ident $path:literal;)+) => {
        $(impl ApiCall for $operation {
            const VERB: Method = Method::$verb;
            const PATH: &'static str = $path;
        })+
    };
}

calls! {
    ListTenants = GET "/tenants";
    CreateTenant = POST "/tenants";
    GetTenant = GET "/tenants/{id}";
    UpdateTenant = PATCH "/tenants/{id}";
    RemoveTenant = DELETE "/tenants/{id}";
    ListKeys = GET "/keys";
    CreateKey = POST "/keys";
    GetKey = GET "/keys/{id}";
    UpdateKey = PATCH "/keys/{id}";
    RotateKey = POST "/keys/{id}/rotate";
    RevokeKey = POST "/keys/{id}/revoke";
    RemoveKey = DELETE "/keys/{id}";
    GetUsage = GET "/usage";
    ListAccounts = GET "/accounts";
    CreateAccount = POST "/accounts";
    RemoveAccount = DELETE "/accounts/{name}";
    SetPassword = PUT "/accounts/{name}/password";
    ListTokens = GET "/tokens";
    CreateToken = POST "/tokens";
    RemoveToken = DELETE "/tokens/{name}";
}
