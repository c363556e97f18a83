//! The reckoning, by hand for a small tree, and the shape of what is drawn.

use super::*;
use rand::SeedableRng;

fn numbered(number: u32, step: Step) -> Numbered {
    Numbered { number, step }
}

#[test]
fn a_tree_comes_to_what_one_reckons_by_hand() {
    let body = vec![numbered(2, Step::Effect { add: 10, fails: 1 })];
    let odd = vec![numbered(4, Step::Add(1))];
    let even = vec![numbered(5, Step::Timer { ms: 70 })];
    let fork = Step::Fork {
        left: vec![numbered(7, Step::Add(3)), numbered(10, Step::Tell { count: 2 })],
        right: vec![numbered(8, Step::Listen { add: 5 })],
    };
    let steps = vec![
        numbered(1, Step::Loop { times: 2, body }),
        numbered(3, Step::Branch { odd, even }),
        numbered(6, fork),
        numbered(9, Step::Meet { add: 8 }),
        numbered(11, Step::Tell { count: 1 }),
    ];
    let program = Program { name: "p".into(), steps, faults: false };
    let expected = program.expect("north", "k", 2);
    // 2, two effects of 10, an even number takes the timer, then (22 + 3) + (22 + 5), and 8 from a meeting.
    assert_eq!((expected.n, expected.status.as_str()), (60, "completed"));
    assert_eq!(Vec::from_iter(expected.effects), ["k/s2.0", "k/s2.1", "k/s5a", "k/s5b"]);
    assert_eq!(expected.waits, [Wait { before: "k/s5a".into(), after: "k/s5b".into(), ms: 70 }]);
    assert_eq!(expected.told, [vec!["k/s10-0", "k/s10-1"], vec!["k/s9", "k/s11-0"]]);
    assert_eq!((expected.signals, expected.meets), (vec![("go-8".to_owned(), 5)], 1));
}

#[test]
fn the_same_seed_draws_the_same_programs_and_another_seed_others() {
    let drawn = |seed| {
        let all = draw_all(&mut StdRng::seed_from_u64(seed), 10);
        all.iter().map(|program| program.document(1).to_string()).collect::<Vec<_>>()
    };
    assert_eq!(drawn(1), drawn(1));
    assert_ne!(drawn(1), drawn(2));
}

#[test]
fn every_kind_of_step_is_drawn() {
    let all = draw_all(&mut StdRng::seed_from_u64(3), 60);
    let text: String = all.iter().map(|program| program.document(1).to_string()).collect();
    for word in
        ["\"for\"", "switch", "fork", "listen", "wait", "\"run\"", "retry", "raise", "\"call\"", "emit"]
    {
        assert!(text.contains(word), "{word}");
    }
}
