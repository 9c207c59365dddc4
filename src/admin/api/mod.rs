//! The API of administration: JSON over HTTP, under `/admin/api/v1`.
//!
//! | file | content |
//! |---|---|
//! | `routes` | the table of its calls |
//! | `serve` | answers a call |
//! | `operation` | runs an operation on tenants, keys and accounts |
//! | `login` | the calls that begin and end a login |
//! | `parameter` | the parameters of a query |
//! | `usage_csv` | usage as a table |
//! | `api_error` | why a call is refused, and the exact answer |
//! | `openapi`, `schemas.json` | the OpenAPI document, made from the table and the schemas |

mod api_error;
mod login;
mod openapi;
mod operation;
mod parameter;
mod routes;
mod serve;
mod usage_csv;

pub(super) use self::{
    api_error::ApiError,
    routes::{ApiRoute, ROOT, ROUTES},
    serve::{ApiContext, serve},
};
