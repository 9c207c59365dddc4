//! The token for geth's engine API: HS256 (RFC 7515) over the time of issue.

use std::{
    path::Path,
    time::{SystemTime, UNIX_EPOCH},
};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD as BASE64};
use hmac::{Hmac, Mac};
use sha2::Sha256;

/// The secret that both sides know.
pub(super) struct Secret(Vec<u8>);

impl Secret {
    /// Reads the file that geth writes: hexadecimal.
    pub(super) fn read(path: &Path) -> Self {
        let text = std::fs::read_to_string(path).unwrap();
        Self(alloy_primitives::hex::decode(text.trim()).unwrap())
    }

    /// The header line for a request made now: geth accepts the token for a minute.
    pub(super) fn header(&self) -> String {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        let claims = serde_json::json!({ "iat": now.as_secs() });
        let token = self.token(r#"{"alg":"HS256","typ":"JWT"}"#, &claims.to_string());
        format!("authorization: Bearer {token}")
    }

    fn token(&self, header: &str, claims: &str) -> String {
        let signed = format!("{}.{}", BASE64.encode(header), BASE64.encode(claims));
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.0).unwrap();
        mac.update(signed.as_bytes());
        let signature = BASE64.encode(mac.finalize().into_bytes());
        format!("{signed}.{signature}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 7515, A.1.
    #[test]
    fn the_token_of_rfc_7515_is_reproduced() {
        let key = "AyM1SysPpbyDfgZld3umj1qzKObwVMkoqQ-EstJQLr_T-1qS0gZH75aKtMN3Yj0iPS4hcgUuTwjAzZr1Z9CAow";
        let secret = Secret(BASE64.decode(key).unwrap());
        let claims =
            "{\"iss\":\"joe\",\r\n \"exp\":1300819380,\r\n \"http://example.com/is_root\":true}";
        let token = secret.token("{\"typ\":\"JWT\",\r\n \"alg\":\"HS256\"}", claims);
        let signature = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk";
        assert_eq!(token.rsplit('.').next(), Some(signature), "{token}");
    }
}
