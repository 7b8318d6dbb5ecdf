//! Verifying many Ed25519 signatures of one key, strictly.
//!
//! The verdict is that of `verify_strict` of ed25519-dalek: S is canonical, neither the key nor R has small order, and
//! `S·B − k·A` is R, byte by byte. What differs is the way there. A key verifies millions of messages, so the multiples of it
//! that a multiplication needs are worked out once (30 KiB a key) as they are for the base point, and R, which is compared
//! with a canonical encoding, is looked up among the points of small order instead of being decompressed. That takes two
//! thirds of the time. Nothing here is secret, so nothing has to take constant time.

use curve25519_dalek::constants::ED25519_BASEPOINT_TABLE;
use curve25519_dalek::edwards::EdwardsBasepointTable;
use curve25519_dalek::scalar::Scalar;
use curve25519_dalek::traits::BasepointTable as _;
use ed25519_dalek::{Signature, VerifyingKey};
use sha2::{Digest as _, Sha512};

use super::keys::KeyError;

/// The canonical encodings of the eight points of small order.
#[rustfmt::skip]
const SMALL_ORDER: [[u8; 32]; 8] = [
    [0x01, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00],
    [0xEC, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x7F],
    [0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00],
    [0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x80],
    [0x26, 0xE8, 0x95, 0x8F, 0xC2, 0xB2, 0x27, 0xB0, 0x45, 0xC3, 0xF4, 0x89, 0xF2, 0xEF, 0x98, 0xF0, 0xD5, 0xDF, 0xAC, 0x05, 0xD3, 0xC6, 0x33, 0x39, 0xB1, 0x38, 0x02, 0x88, 0x6D, 0x53, 0xFC, 0x05],
    [0x26, 0xE8, 0x95, 0x8F, 0xC2, 0xB2, 0x27, 0xB0, 0x45, 0xC3, 0xF4, 0x89, 0xF2, 0xEF, 0x98, 0xF0, 0xD5, 0xDF, 0xAC, 0x05, 0xD3, 0xC6, 0x33, 0x39, 0xB1, 0x38, 0x02, 0x88, 0x6D, 0x53, 0xFC, 0x85],
    [0xC7, 0x17, 0x6A, 0x70, 0x3D, 0x4D, 0xD8, 0x4F, 0xBA, 0x3C, 0x0B, 0x76, 0x0D, 0x10, 0x67, 0x0F, 0x2A, 0x20, 0x53, 0xFA, 0x2C, 0x39, 0xCC, 0xC6, 0x4E, 0xC7, 0xFD, 0x77, 0x92, 0xAC, 0x03, 0x7A],
    [0xC7, 0x17, 0x6A, 0x70, 0x3D, 0x4D, 0xD8, 0x4F, 0xBA, 0x3C, 0x0B, 0x76, 0x0D, 0x10, 0x67, 0x0F, 0x2A, 0x20, 0x53, 0xFA, 0x2C, 0x39, 0xCC, 0xC6, 0x4E, 0xC7, 0xFD, 0x77, 0x92, 0xAC, 0x03, 0xFA],
];

/// A public key, ready to verify.
pub(super) struct Ed25519Key {
    /// A as it was given: what signatures cover.
    encoded: [u8; 32],
    /// Multiples of −A.
    minus_a: Box<EdwardsBasepointTable>,
}

impl Ed25519Key {
    pub(super) fn new(encoded: &[u8; 32]) -> Result<Self, KeyError> {
        let key = VerifyingKey::from_bytes(encoded).map_err(|_| KeyError::NoPoint)?;
        if key.is_weak() {
            return Err(KeyError::Weak);
        }
        let minus_a = Box::new(EdwardsBasepointTable::create(&-key.to_edwards()));
        Ok(Self { encoded: *encoded, minus_a })
    }

    /// Whether the signature fits the bytes.
    pub(super) fn verifies(&self, bytes: &[u8], signature: &[u8]) -> bool {
        let Ok(signature) = Signature::from_slice(signature) else { return false };
        let r = signature.r_bytes();
        let Some(s) = Scalar::from_canonical_bytes(*signature.s_bytes()).into_option() else { return false };
        if SMALL_ORDER.contains(r) {
            return false;
        }
        let digest = Sha512::new().chain_update(r).chain_update(self.encoded).chain_update(bytes).finalize();
        let k = Scalar::from_bytes_mod_order_wide(&digest.into());
        let expected = ED25519_BASEPOINT_TABLE * &s + &*self.minus_a * &k;
        expected.compress().as_bytes() == r
    }
}

#[cfg(test)]
mod tests {
    use ed25519_dalek::{Signer as _, SigningKey, Verifier as _};
    use proptest::prelude::{any, prop_assert, prop_assert_eq, proptest};

    use super::*;

    #[test]
    fn the_points_of_small_order_are_these() {
        for (place, point) in SMALL_ORDER.iter().enumerate() {
            assert!(VerifyingKey::from_bytes(point).unwrap().is_weak());
            assert!(!SMALL_ORDER[..place].contains(point));
        }
    }

    #[test]
    fn a_signature_whose_r_has_small_order_is_refused() {
        let key = SigningKey::from_bytes(&[7; 32]);
        let public = key.verifying_key();
        let (message, neutral) = (b"message", SMALL_ORDER[0]);
        // S = k·a makes S·B − k·A the neutral element.
        let digest =
            Sha512::new().chain_update(neutral).chain_update(public.as_bytes()).chain_update(message);
        let k = Scalar::from_bytes_mod_order_wide(&digest.finalize().into());
        let s = k * key.to_scalar();
        let signature = Signature::from_components(neutral, s.to_bytes());
        assert!(public.verify(message, &signature).is_ok());
        assert!(public.verify_strict(message, &signature).is_err());
        assert!(!Ed25519Key::new(public.as_bytes()).unwrap().verifies(message, &signature.to_bytes()));
    }

    #[test]
    fn an_s_beyond_the_group_order_is_refused() {
        // The order of the group, little-endian: S + L says the same to a reader that reduces.
        let mut order = [0_u8; 32];
        order[..16].copy_from_slice(&bytes("edd3f55c1a631258d69cf7a2def9de14"));
        order[31] = 0x10;
        let key = SigningKey::from_bytes(&[7; 32]);
        let mut signature = key.sign(b"message").to_bytes();
        let own = Ed25519Key::new(key.verifying_key().as_bytes()).unwrap();
        assert!(own.verifies(b"message", &signature));
        let s = <[u8; 32]>::try_from(&signature[32..]).unwrap();
        let mut carry = 0_u16;
        for (digit, more) in signature[32..].iter_mut().zip(order) {
            let sum = u16::from(*digit) + u16::from(more) + carry;
            *digit = u8::try_from(sum & 0xFF).unwrap();
            carry = sum >> 8;
        }
        let beyond = <[u8; 32]>::try_from(&signature[32..]).unwrap();
        assert_eq!(Scalar::from_bytes_mod_order(beyond), Scalar::from_bytes_mod_order(s));
        assert!(!own.verifies(b"message", &signature));
        assert!(key.verifying_key().verify_strict(b"message", &Signature::from_bytes(&signature)).is_err());
    }

    #[test]
    fn the_first_test_vectors_of_rfc_8032_pass() {
        for (public, message, signature) in [
            (
                "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a",
                "",
                concat!(
                    "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e06522490155",
                    "5fb8821590a33bacc61e39701cf9b46bd25bf5f0595bbe24655141438e7a100b"
                ),
            ),
            (
                "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c",
                "72",
                concat!(
                    "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da",
                    "085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00"
                ),
            ),
        ] {
            let key = Ed25519Key::new(&bytes(public).try_into().unwrap()).unwrap();
            assert!(key.verifies(&bytes(message), &bytes(signature)));
            assert!(!key.verifies(b"other", &bytes(signature)));
        }
    }

    fn bytes(hex: &str) -> Vec<u8> {
        let digits: Vec<_> = hex.chars().map(|digit| digit.to_digit(16).unwrap()).collect();
        digits.chunks(2).map(|pair| u8::try_from(pair[0] * 16 + pair[1]).unwrap()).collect()
    }

    proptest! {
        #![proptest_config(proptest::prelude::ProptestConfig::with_cases(64))]

        #[test]
        fn the_verdict_is_that_of_verify_strict(
            seed in any::<[u8; 32]>(), message in proptest::collection::vec(any::<u8>(), 0..200), bit in 0..512_usize,
        ) {
            let key = SigningKey::from_bytes(&seed);
            let public = key.verifying_key();
            let own = Ed25519Key::new(public.as_bytes()).unwrap();
            let mut signature = key.sign(&message).to_bytes();
            prop_assert!(own.verifies(&message, &signature));
            signature[bit / 8] ^= 1 << (bit % 8);
            let strict = public.verify_strict(&message, &Signature::from_bytes(&signature)).is_ok();
            prop_assert_eq!(own.verifies(&message, &signature), strict);
            prop_assert!(!strict);
        }
    }
}
