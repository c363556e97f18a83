//! The chain and what is found in an export that somebody has changed.

use super::*;
use export::{Checkpoint, Link, Range, write};
use proptest::prelude::*;

fn acme() -> TenantId {
    TenantId::new("acme").unwrap()
}

fn entry(number: u64) -> Entry {
    Entry {
        id: Uuid::from_u128(number.into()),
        tenant: acme(),
        at: 1_000_000 * number as i64 + 7,
        act: "instance.cancel".into(),
        who: Who {
            kind: "key".into(),
            key: Some("k1".into()),
            subject: Some("Ann \"the\" O'Neil\n".into()),
            home: None,
            node: Uuid::from_u128(9),
        },
        object: Object { kind: "instance".into(), id: format!("wi_{number}") },
        before: Some(hex(&content_hash(&number.to_be_bytes()))),
        after: None,
        request: Some(format!("req_{number}")),
        trace: None,
    }
}

const KEY: Hash = [7; 32];

/// Stands in for a signature: nobody without the secret can make it.
fn sign(said: &[u8]) -> Signature {
    let half = content_hash(&[b"secret", said].concat());
    let other = content_hash(&half);
    [half, other].concat().try_into().unwrap()
}

fn is_signed(key: &Hash, said: &[u8], signature: &Signature) -> bool {
    *key == KEY && *signature == sign(said)
}

/// Entries `1..=count`, and a checkpoint after every third.
fn chain(count: u64) -> Range {
    let (mut links, mut checkpoints, mut prev) = (Vec::new(), Vec::new(), BEGINNING);
    for seq in 1..=count {
        let body = entry(seq).bytes();
        let hash = link(&prev, seq, &content_hash(&body));
        links.push(Link { seq, prev, hash, body });
        prev = hash;
        if seq % 3 == 0 {
            let mut one = Checkpoint { seq, hash, at: Time(seq as i64), key: KEY, signature: [0; 64] };
            one.signature = sign(&one.said(&acme()));
            checkpoints.push(one);
        }
    }
    Range { tenant: acme(), from: 1, prev: BEGINNING, links, checkpoints }
}

/// The part of a chain after its first `skip` entries.
fn part(whole: Range, skip: usize) -> Range {
    let prev = whole.links[skip - 1].hash;
    let from = skip as u64 + 1;
    let links = whole.links[skip..].to_vec();
    let checkpoints = whole.checkpoints.into_iter().filter(|one| one.seq >= from).collect();
    Range { from, prev, links, checkpoints, ..whole }
}

fn check(export: &[u8]) -> Result<Verified, Broken> {
    verify(export, &is_signed)
}

#[test]
fn an_export_says_its_range_and_both_ends() {
    let range = part(chain(10), 4);
    let verified = check(&write(&range, &KEY, sign)).unwrap();
    assert_eq!((verified.from, verified.to, verified.checkpoints), (5, 10, 2));
    assert_eq!((verified.prev, verified.last), (range.prev, range.links[5].hash));
    assert_eq!(verified.keys, [KEY].into());
    let empty = Range { from: 11, prev: verified.last, links: vec![], checkpoints: vec![], ..range };
    assert_eq!(check(&write(&empty, &KEY, sign)).unwrap().to, 10);
}

#[test]
fn an_entry_is_read_as_it_was_written() {
    let one = entry(3);
    assert_eq!(Entry::read(&one.bytes()), Some(one.clone()));
    let text = String::from_utf8(one.bytes()).unwrap();
    assert!(text.contains("\"at\":3000007"), "microseconds are kept as they are: {text}");
}

#[test]
fn hex_goes_both_ways_and_takes_nothing_else() {
    assert_eq!(unhex(&hex(&[0, 15, 255])), Some([0, 15, 255]));
    assert_eq!(unhex::<2>("00F0"), None);
    assert_eq!(unhex::<2>("00f"), None);
    assert_eq!(unhex::<1>("0g"), None);
}

/// Somebody who has the database and not the key: changes an entry and hashes all that follows anew.
#[test]
fn a_chain_that_was_made_anew_lacks_the_signature() {
    let mut forged = chain(5);
    let mut prev = forged.links[1].hash;
    forged.links[2].body = entry(77).bytes();
    for link_of in &mut forged.links[2..] {
        link_of.prev = prev;
        link_of.hash = link(&prev, link_of.seq, &content_hash(&link_of.body));
        prev = link_of.hash;
    }
    let export = write(&forged, &KEY, sign);
    let found = check(&export).unwrap_err();
    assert_eq!((found.seq, found.why.contains("signed here")), (Some(3), true), "{found}");
    forged.checkpoints.clear();
    let not_signed = write(&forged, &KEY, |_| [3; 64]);
    assert!(check(&not_signed).unwrap_err().why.contains("signature of the export"));
}

#[test]
fn what_was_cut_off_left_out_or_moved_is_named() {
    let whole = chain(6);
    let left_out = |at: usize| {
        let mut range = whole.clone();
        range.links.remove(at);
        range.checkpoints.clear();
        check(&write(&range, &KEY, sign)).unwrap_err()
    };
    assert_eq!(left_out(2).seq, Some(4));
    let mut moved = whole.clone();
    moved.links.swap(1, 2);
    assert_eq!(check(&write(&moved, &KEY, sign)).unwrap_err().seq, Some(3));
    let text = String::from_utf8(write(&whole, &KEY, sign)).unwrap();
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    for cut in 0..lines.len() {
        assert!(check(lines[..cut].concat().as_bytes()).is_err(), "{cut} lines are no export");
    }
}

/// One random change of an export.
fn mutate(export: &[u8], (kind, a, b, with): (u8, usize, usize, u8)) -> Vec<u8> {
    let mut bytes = export.to_vec();
    let (a, b) = (a % bytes.len(), b % bytes.len());
    let mut lines: Vec<&[u8]> = export.split_inclusive(|byte| *byte == b'\n').collect();
    let (first, second) = (a % lines.len(), b % lines.len());
    match kind % 9 {
        0 => bytes[a] = with,
        1 => bytes[a] ^= 1 << (with % 8),
        2 => drop(bytes.remove(a)),
        3 => bytes.insert(a, with),
        4 => bytes.truncate(a),
        5 => drop(bytes.drain(a.min(b)..a.max(b))),
        6 => {
            lines.remove(first);
            bytes = lines.concat();
        }
        7 => {
            lines.swap(first, second);
            bytes = lines.concat();
        }
        _ => {
            lines.insert(second, lines[first]);
            bytes = lines.concat();
        }
    }
    bytes
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 10_000, ..ProptestConfig::default() })]

    #[test]
    fn any_change_of_an_export_is_found(change in any::<(u8, usize, usize, u8)>()) {
        thread_local! {
            static EXPORT: Vec<u8> = write(&part(chain(12), 2), &KEY, sign);
        }
        EXPORT.with(|export| {
            let changed = mutate(export, change);
            prop_assert_eq!(check(&changed).is_ok(), changed == *export);
            Ok(())
        })?;
    }
}

proptest! {
    #[test]
    fn every_range_of_every_chain_is_whole(count in 1_u64..40, skip in 0_usize..39) {
        let whole = chain(count);
        let range = if skip == 0 || skip >= count as usize { whole } else { part(whole, skip) };
        prop_assert!(check(&write(&range, &KEY, sign)).is_ok());
    }
}
