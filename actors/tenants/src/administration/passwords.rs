use super::{AdminError, Administration, Operation, Requester, SecretText};
use crate::{account::Account, name::Name, password::PasswordHash};

/// Looks up what is kept of an account's password. Anybody may; only the one who verifies a
/// password gets it, and it never leaves the process.
#[derive(Clone, Debug)]
pub struct FindPassword {
    /// The account's name, as somebody gave it.
    pub name: String,
}

/// What is kept of the password of an account, or of none.
#[derive(Clone, Debug)]
pub struct StoredPassword(Option<(Name, PasswordHash)>);

/// The proof that somebody gave the password of an account.
#[derive(Clone, Debug)]
pub struct VerifiedPassword {
    pub(super) account: Name,
    pub(super) hash: PasswordHash,
}

impl StoredPassword {
    /// Verifies a password. This takes some 20 ms, as long for an account as for none, so it is
    /// done on a thread that nobody waits for.
    #[must_use]
    pub fn verify(&self, password: &SecretText) -> Option<VerifiedPassword> {
        let hash = self.0.as_ref().map(|(_, hash)| hash);
        let is_right = PasswordHash::verify(hash, password.expose());
        let (account, hash) = self.0.clone().filter(|_| is_right)?;
        Some(VerifiedPassword { account, hash })
    }
}

impl VerifiedPassword {
    /// Whether it is the present password of this account.
    pub(super) fn is_of(&self, account: &Account) -> bool {
        self.account == account.name && self.hash == account.password
    }
}

impl Operation for FindPassword {
    type Answer = StoredPassword;

    fn run(
        self,
        administration: &mut Administration,
        _: &Requester,
    ) -> Result<StoredPassword, AdminError> {
        let account = administration.accounts.account(&self.name);
        let stored = account.map(|account| (account.name.clone(), account.password.clone()));
        Ok(StoredPassword(stored))
    }
}
