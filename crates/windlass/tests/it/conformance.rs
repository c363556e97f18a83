//! The conformance suite: Gherkin scenarios through the public API of the real binary.
//!
//! Our own features stand in `tests/conformance`, in the vocabulary of the official kit with what it lacks. The parts
//! of the official kit beside the workspace pass through the same runner, unmodified; without them that test says so
//! and passes. Scenarios tagged `@crash` go once more, with a `kill -9` after every step that acts. All of it is played in
//! one process and on two nodes that share a PostgreSQL database.

pub(crate) mod compare;
pub(crate) mod scene;
pub(crate) mod steps;
mod stub;

use futures_util::{StreamExt, stream};
use gherkin::{Feature, GherkinEnv};
use scene::{Mode, Place, Scene, Told};
use std::path::{Path, PathBuf};

/// Scenarios under way at once: they mostly wait.
const AT_ONCE: usize = 4;
/// What the suite has at least.
const SCENARIOS_MIN: usize = 70;

/// One scenario with the steps of its background before its own.
struct Case {
    name: String,
    tags: Vec<String>,
    steps: Vec<gherkin::Step>,
}

fn features(folder: &Path) -> Option<Vec<Case>> {
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(folder).ok()?.map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.extension().is_some_and(|extension| extension == "feature"));
    files.sort();
    Some(files.iter().flat_map(|file| cases(file)).collect())
}

fn cases(file: &Path) -> Vec<Case> {
    let feature = Feature::parse_path(file, GherkinEnv::default())
        .unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    let background = feature.background.map(|background| background.steps).unwrap_or_default();
    let title = feature.name;
    feature
        .scenarios
        .into_iter()
        .map(|scenario| Case {
            name: format!("{title}: {}", scenario.name),
            tags: feature.tags.iter().cloned().chain(scenario.tags).collect(),
            steps: background.iter().cloned().chain(scenario.steps).collect(),
        })
        .collect()
}

/// Plays every case; panics with all that failed.
async fn play(cases: Vec<Case>, mode: Mode, place: Place) {
    let count = cases.len();
    let Some(shared) = scene::shared(mode, place).await else { return };
    let plays = stream::iter(cases).map(|case| {
        let shared = shared.clone();
        async move {
            let mut scene = Scene::new(mode, place, shared).await;
            for step in &case.steps {
                if let Err(why) = steps::play(&mut scene, step).await {
                    return Some(format!("{}\n    {} {}\n    {why}", case.name, step.keyword, step.value));
                }
            }
            None
        }
    });
    let failed: Vec<String> =
        plays.buffer_unordered(AT_ONCE).filter_map(async |failure| failure).collect().await;
    assert!(failed.is_empty(), "{} of {count} scenarios failed:\n\n{}\n", failed.len(), failed.join("\n\n"));
}

fn own() -> Vec<Case> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/conformance");
    features(&folder).expect("our own features are here")
}

/// All of our own.
fn all() -> Vec<Case> {
    let cases = own();
    assert!(cases.len() >= SCENARIOS_MIN, "only {} scenarios", cases.len());
    cases
}

/// Those that are worth a kill after every step.
fn crashing() -> Vec<Case> {
    let mut cases = own();
    cases.retain(|case| case.tags.iter().any(|tag| tag == "crash"));
    assert!(cases.len() >= 10, "only {} scenarios", cases.len());
    cases
}

/// Those of the official kit, if it lies beside the workspace.
#[allow(clippy::print_stderr, reason = "skipping must be seen")]
fn official() -> Vec<Case> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data/ows/ctk");
    let Some(cases) = features(&folder) else {
        eprintln!("SKIPPED: {} is missing, so the official kit was not played", folder.display());
        return vec![];
    };
    assert!(cases.len() >= 12, "only {} scenarios", cases.len());
    cases
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn our_own_scenarios_pass() {
    play(all(), Mode::Calm, Place::Own).await;
}

/// Two nodes on a database, asked by turns: whatever one was told, the other has to know.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn our_own_scenarios_pass_on_two_nodes_with_a_database() {
    play(all(), Mode::Calm, Place::Database(Told::All)).await;
}

/// The same with hints off: what nobody tells is found by the re-scan (B32).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn our_own_scenarios_pass_on_two_nodes_that_tell_each_other_nothing() {
    play(all(), Mode::Calm, Place::Database(Told::Nothing)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn scenarios_pass_with_a_kill_after_every_step() {
    play(crashing(), Mode::Killing, Place::Own).await;
}

/// The two nodes are killed by turns.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn scenarios_pass_with_a_kill_of_a_node_after_every_step() {
    play(crashing(), Mode::Killing, Place::Database(Told::All)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_official_kit_passes() {
    play(official(), Mode::Calm, Place::Own).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_official_kit_passes_on_two_nodes_with_a_database() {
    play(official(), Mode::Calm, Place::Database(Told::All)).await;
}
