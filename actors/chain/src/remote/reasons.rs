//! Enums of reasons, with labels for metrics and sentences for people.

/// Declares an enum of reasons. Each has a stable label for metrics, and a sentence as its
/// [`Display`](core::fmt::Display). The test below is an example.
#[macro_export]
macro_rules! reasons {
    ($(#[doc = $doc:literal])+ $reason:ident: $($name:ident = $label:literal, $says:literal;)+) => {
        $(#[doc = $doc])+
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum $reason {
            $(#[doc = $says] $name,)+
        }

        impl $reason {
            /// All of them.
            pub const ALL: [Self; [$($label),+].len()] = [$(Self::$name),+];

            /// The reason in one word, for metrics.
            #[must_use]
            pub const fn label(self) -> &'static str {
                match self {
                    $(Self::$name => $label,)+
                }
            }
        }

        impl ::core::fmt::Display for $reason {
            fn fmt(&self, f: &mut ::core::fmt::Formatter<'_>) -> ::core::fmt::Result {
                f.write_str(match self {
                    $(Self::$name => $says,)+
                })
            }
        }
    };
}

#[cfg(test)]
mod tests {
    #![expect(
        unreachable_pub,
        reason = "the macro is for enums of a package's interface"
    )]

    reasons! {
        /// Why it rains.
        Rain:
        Cloud = "cloud", "a cloud is above";
        Hose = "hose", "somebody waters the flowers";
    }

    #[test]
    fn reasons_have_labels_and_sentences() {
        assert_eq!(Rain::ALL.map(Rain::label), ["cloud", "hose"]);
        assert_eq!(Rain::Hose.to_string(), "somebody waters the flowers");
    }
}
