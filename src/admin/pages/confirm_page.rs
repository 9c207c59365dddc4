use askama::Template;

use super::frame::Frame;
use crate::admin::assets;

/// Asks whether somebody means it, and names what is destroyed.
#[derive(Template)]
#[template(path = "confirm.html")]
pub(super) struct ConfirmPage {
    pub(super) frame: Frame,
    pub(super) title: String,
    pub(super) lead: String,
    /// What happens, a line each.
    pub(super) destroys: Vec<String>,
    /// Where the form is sent to.
    pub(super) action: String,
    /// Fields that are not shown.
    pub(super) hidden: Vec<(&'static str, String)>,
    pub(super) choice: Option<Choice>,
    pub(super) is_danger: bool,
    pub(super) button: String,
    /// Address and name of the page to go back to.
    pub(super) back: (String, String),
}

/// One of several answers.
pub(super) struct Choice {
    pub(super) name: &'static str,
    pub(super) label: &'static str,
    pub(super) hint: &'static str,
    /// Value and text.
    pub(super) options: &'static [(&'static str, &'static str)],
    pub(super) chosen: &'static str,
}
