use askama::Template;

use super::{frame::Frame, show, snippets::Snippet};
use crate::admin::assets;

/// Shows what was made, this once: a key, a secret or a token.
#[derive(Template)]
#[template(path = "made.html")]
pub(super) struct MadePage {
    pub(super) frame: Frame,
    pub(super) title: String,
    /// What else to know.
    pub(super) lead: &'static str,
    /// What each is, and the text itself.
    pub(super) secrets: Vec<(&'static str, String)>,
    /// Address and name of the page above.
    pub(super) back: (&'static str, &'static str),
    /// Address and name of the page to go on with.
    pub(super) next: (String, &'static str),
    pub(super) snippets: Vec<Snippet>,
}
