//! Values as a user would write them.

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
    time::Duration,
};

use alloy_primitives::B256;
use nearhead_actors::{data_folder::DataRoot, freshness::HeadAgeMax, upstream::Endpoint};
use nearhead_tenants::allowlists::Network;

use super::{
    api_key::ApiKey,
    value::{AdminListen, Cap},
};
use crate::access::{Host, MethodSet};

/// Shows a value as a user would write it.
pub(super) trait Show {
    fn show(&self) -> String;
}

impl<T: Show> Show for Option<T> {
    fn show(&self) -> String {
        self.as_ref().map_or_else(|| "none".to_owned(), T::show)
    }
}

impl Show for PathBuf {
    fn show(&self) -> String {
        Path::display(self).to_string()
    }
}

impl Show for Duration {
    fn show(&self) -> String {
        match self.subsec_millis() {
            0 => format!("{}s", self.as_secs()),
            _ => format!("{}ms", self.as_millis()),
        }
    }
}

impl Show for Cap {
    fn show(&self) -> String {
        match self {
            Self::Auto => "auto".to_owned(),
            Self::Of(count) => count.to_string(),
        }
    }
}

impl Show for HeadAgeMax {
    fn show(&self) -> String {
        match self {
            Self::Auto => "auto".to_owned(),
            Self::Off => "off".to_owned(),
            Self::Of(age) => age.show(),
        }
    }
}

impl Show for AdminListen {
    fn show(&self) -> String {
        match self {
            Self::Default => Self::DEFAULT.to_string(),
            Self::Off => "off".to_owned(),
            Self::At(address) => address.to_string(),
        }
    }
}

impl Show for DataRoot {
    fn show(&self) -> String {
        match self {
            Self::Auto(None) => "auto".to_owned(),
            Self::Memory => "none".to_owned(),
            Self::Auto(Some(folder)) | Self::Given(folder) => folder.show(),
        }
    }
}

macro_rules! show_lists {
    ($($item:ty),+) => {
        $(impl Show for Vec<$item> {
            fn show(&self) -> String {
                listed(self.iter().map(ToString::to_string))
            }
        })+
    };
}

show_lists!(Box<str>, Endpoint, Host, Network);

impl Show for MethodSet {
    fn show(&self) -> String {
        match self {
            Self::Companion => "companion".to_owned(),
            Self::Core => "core".to_owned(),
            Self::Forwarded => "forwarded".to_owned(),
        }
    }
}

impl Show for Vec<(u64, B256)> {
    fn show(&self) -> String {
        listed(self.iter().map(|(number, hash)| format!("{number}:{hash}")))
    }
}

fn listed(values: impl Iterator<Item = String>) -> String {
    let values: Vec<String> = values.collect();
    match values.is_empty() {
        true => "none".to_owned(),
        false => values.join(", "),
    }
}

impl Show for Vec<ApiKey> {
    fn show(&self) -> String {
        let mut tenants: Vec<&str> = Vec::new();
        for key in self {
            if !tenants.contains(&key.tenant.as_str()) {
                tenants.push(&key.tenant);
            }
        }
        match self.len() {
            0 => "none".to_owned(),
            count => format!("{count} hidden ({})", tenants.join(", ")),
        }
    }
}

macro_rules! show_as_displayed {
    ($($type:ty),+) => {
        $(impl Show for $type {
            fn show(&self) -> String {
                self.to_string()
            }
        })+
    };
}

show_as_displayed!(
    u32,
    u64,
    usize,
    f64,
    bool,
    String,
    Box<str>,
    SocketAddr,
    Endpoint
);
