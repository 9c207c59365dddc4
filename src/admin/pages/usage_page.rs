use askama::Template;

use super::{
    frame::Frame,
    show,
    usage_panel::{UsageOf, UsagePanel},
    visit::{Answer, Visit, page},
};
use crate::admin::assets;

#[derive(Template)]
#[template(path = "usage_all.html")]
struct UsagePage {
    frame: Frame,
    usage: UsagePanel,
}

/// The usage of all keys that the visitor may see.
pub(super) async fn show(visit: &Visit<'_>) -> Answer {
    page(&UsagePage {
        frame: visit.frame("/usage"),
        usage: UsagePanel::load(visit, UsageOf::All, "/usage").await?,
    })
}
