//! The OpenRPC document: every method of the registry with its parameters, result, errors, price
//! and examples.
//!
//! | file | content |
//! |---|---|
//! | `document` | assembles the document |
//! | `documentation` | what the document says of each method |
//! | `parameters`, `calls`, `results` | the JSON Schemas of what methods take and give |
//! | `errors` | the errors that methods may answer with |
//! | `examples` | requests with their answers on the chain of execution-apis |

mod calls;
mod document;
mod documentation;
mod errors;
mod examples;
mod parameters;
mod results;

pub use document::document;
