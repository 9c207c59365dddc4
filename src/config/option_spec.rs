//! What one option is, and the macro that makes a table of them.

/// One option as the command line, the environment, the file and the documentation know it. `C` is
/// the configuration that has it.
#[derive(Debug)]
pub struct OptionRow<C> {
    /// Name of the flag (with `--`) and of the file's key.
    pub name: &'static str,
    /// Its heading in `--help`.
    pub(crate) group: &'static str,
    /// Placeholder of its value, with the unit.
    pub(crate) unit: &'static str,
    /// The accepted values, as error messages state them.
    pub(crate) accepts: &'static str,
    /// What it is for.
    pub(crate) help: &'static str,
    /// Whether its value holds a secret, which no message shows.
    pub(super) is_secret: bool,
    /// Parses the given texts (several only for a list) into the configuration; `None` if one of
    /// them is invalid.
    pub(super) set: fn(&mut C, &[String]) -> Option<()>,
    /// The value as `check` prints it, without secrets.
    pub(super) show: fn(&C) -> String,
}

impl<C> Clone for OptionRow<C> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<C> Copy for OptionRow<C> {}

impl<C: Default> OptionRow<C> {
    /// Name in the environment.
    #[must_use]
    pub(crate) fn environment(&self) -> String {
        format!("NEARHEAD_{}", self.name.to_uppercase().replace('-', "_"))
    }

    /// The default as a user would write it.
    #[must_use]
    pub(crate) fn default(&self) -> String {
        (self.show)(&C::default())
    }

    /// Whether its flag needs no value.
    pub(super) fn is_switch(&self) -> bool {
        self.unit == "BOOL"
    }

    /// Whether it may be given several times.
    pub(super) fn is_list(&self) -> bool {
        matches!(
            self.name,
            "allowed-host"
                | "api-key"
                | "fleet"
                | "forward"
                | "node"
                | "trusted-block"
                | "trusted-proxy"
        )
    }
}

/// The rows of two tables, in their order.
pub(super) const fn joined<C, const N: usize>(
    first: &[OptionRow<C>],
    second: &[OptionRow<C>],
) -> [OptionRow<C>; N] {
    let mut rows = [first[0]; N];
    let mut at = 0;
    while at < N {
        rows[at] = match at < first.len() {
            true => first[at],
            false => second[at - first.len()],
        };
        at += 1;
    }
    rows
}

/// Makes a struct with a field for each option, its defaults, and the table of its rows.
///
/// The struct may be a part of the configuration, so the rows are those of any that has it. Its own
/// fields are parts that have tables of their own.
macro_rules! options {
    (@is_secret) => { false };
    (@is_secret secret) => { true };
    (
        $(#[$about:meta])*
        pub struct $struct:ident {
            $($(#[$about_group:meta])* pub $group_field:ident: $group_type:ty,)*
        }
        fn $table:ident;
        $($group:literal: $(
            $(#[doc = $help:literal])+
            $name:literal $field:ident: $type:ty = $default:expr,
                $unit:literal, $accepts:literal, $parse:expr $(, $secret:ident)?;
        )+)+
    ) => {
        $(#[$about])*
        #[derive(Clone, Debug)]
        pub struct $struct {
            $($(#[$about_group])* pub $group_field: $group_type,)*
            $($($(#[doc = $help])+ pub $field: $type,)+)+
        }

        impl Default for $struct {
            fn default() -> Self {
                Self {
                    $($group_field: <$group_type>::default(),)*
                    $($($field: $default,)+)+
                }
            }
        }

        impl AsRef<Self> for $struct {
            fn as_ref(&self) -> &Self {
                self
            }
        }

        impl AsMut<Self> for $struct {
            fn as_mut(&mut self) -> &mut Self {
                self
            }
        }

        /// The rows, in the order of `--help`.
        pub(super) const fn $table<C: AsRef<$struct> + AsMut<$struct> + 'static>()
        -> &'static [OptionRow<C>] {
            const {
                &[$($(OptionRow {
                    name: $name,
                    group: $group,
                    unit: $unit,
                    accepts: $accepts,
                    help: concat!($($help),+).trim_ascii_start(),
                    is_secret: options!(@is_secret $($secret)?),
                    set: |config, texts| {
                        let parse: fn(&[String]) -> Option<$type> = $parse;
                        config.as_mut().$field = parse(texts)?;
                        Some(())
                    },
                    show: |config| config.as_ref().$field.show(),
                },)+)+]
            }
        }
    };
}

pub(super) use options;
