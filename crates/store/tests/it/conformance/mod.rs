//! What every adapter of the port must do. One suite: a case is an async function over an open store that node 1 has
//! joined; `suite!` runs every case once per adapter, each on a fresh store.
//!
//! A new adapter adds one `open` function and one `suite!` line.

mod audit;
mod batch;
mod batches;
mod claim;
mod delivery;
mod error;
mod event;
mod feed;
mod guard;
mod key;
mod list;
mod node;
mod payload;
mod purge;
mod query;
mod record;
mod schedule;
mod secret;
mod standing;
mod task;
mod tenant;

use crate::fixture::*;
use machine::Time;
use std::any::Any;
use store::{Commit, Outcome, Store, postgres, sqlite};

/// A fresh store and whatever must live as long as it.
pub(crate) struct Opened {
    pub(crate) store: Box<dyn Store>,
    _place: Box<dyn Any>,
}

impl Opened {
    /// Commits one batch as node 1.
    pub(crate) async fn commit(&self, batch: Vec<Commit>) -> Vec<Outcome> {
        self.store.commit(node(1), batch).await.unwrap()
    }

    /// Commits one commit as node 1 and expects it to land.
    pub(crate) async fn put(&self, writes: Vec<store::Write>) {
        assert_eq!(self.commit(vec![commit(writes)]).await, [Outcome::Committed]);
    }
}

async fn joined(store: Box<dyn Store>, place: impl Any) -> Option<Opened> {
    store.join(node(1), Time(0), LEASE_MS).await.unwrap();
    Some(Opened { store, _place: Box::new(place) })
}

async fn sqlite_file() -> Option<Opened> {
    let dir = tempfile::tempdir().unwrap();
    let store = sqlite::Sqlite::open(dir.path().join("windlass.db")).unwrap();
    joined(Box::new(store), dir).await
}

async fn sqlite_memory() -> Option<Opened> {
    joined(Box::new(sqlite::Sqlite::in_memory().unwrap()), ()).await
}

async fn sqlite_inline() -> Option<Opened> {
    joined(Box::new(sqlite::Inline::new().unwrap()), ()).await
}

/// As the role that a node connects as, under row security; the suite owns the time.
async fn postgres_with(pooled: bool) -> Option<Opened> {
    let database = scratch::database()?;
    postgres::migrate(&database.owner_url, Some(database.application)).await.unwrap();
    let options = postgres::Options { database_clock: false, pooled, ..postgres::Options::default() };
    let store = postgres::Postgres::open_with(&database.url, options).await.unwrap();
    joined(Box::new(store), database).await
}

async fn postgres_direct() -> Option<Opened> {
    postgres_with(false).await
}

/// As behind a transaction pooler: nothing prepared.
async fn postgres_pooled() -> Option<Opened> {
    postgres_with(true).await
}

/// Behind PgBouncer in transaction mode, with fewer connections to the server than the store opens.
async fn postgres_behind_pooler() -> Option<Opened> {
    let database = scratch::database()?;
    let pooler = scratch::pooler()?;
    postgres::migrate(&database.owner_url, Some(database.application)).await.unwrap();
    let url = pooler.url(&database.url).unwrap();
    let options = postgres::Options { database_clock: false, ..postgres::Options::default() };
    let store = postgres::Postgres::open_with(&url, options).await.unwrap();
    joined(Box::new(store), database).await
}

macro_rules! suite {
    ($($adapter:ident: $($module:ident { $($case:ident)* })*;)*) => {
        $(mod $adapter {
            $(mod $module {
                $(#[tokio::test]
                async fn $case() {
                    if let Some(opened) = crate::conformance::$adapter().await {
                        crate::conformance::$module::$case(&opened).await;
                    }
                })*
            })*
        })*
    };
}

/// Names every case once, so that all adapters run the same list.
macro_rules! every_case {
    ($($adapter:ident)*) => {
        suite! {
            $($adapter:
                batch {
                    start_lands_whole a_failure_at_any_write_undoes_all lost_guard_leaves_the_rest_of_the_batch
                    late_guard_undoes_the_commit_alone bad_row_in_a_batch_of_500 commits_take_effect_in_order
                    empty_batches_and_commits concurrent_calls_all_land
                }
                audit {
                    an_entry_lands_with_its_act_or_not_at_all
                    entries_are_sealed_once_and_nothing_follows_the_same_twice
                    many_writers_and_two_sequencers_make_one_chain only_the_front_is_cut_and_its_hash_is_kept
                    entries_are_found_by_every_field
                }
                batches {
                    a_batch_is_guarded_and_found_when_due items_are_settled_once_and_counted
                    settling_goes_with_the_rest_of_its_commit a_parked_tenants_batches_wait batches_that_ended_go_by_age
                }
                claim {
                    takes_backlog_once_in_due_order born_owned_rows_are_never_returned calls_are_claimed_from_every_tenant_in_equal_shares
                    a_crowded_queue_is_shared_out_by_weight tenants_change_where_something_is_given
                owned_rows_are_known_and_released_by_name
                retry_makes_backlog_again
                a_retry_that_comes_late_takes_nothing_from_its_new_owner
                    next_due_is_the_earliest_unowned limit_holds a_row_says_where_it_stands
                    an_outlook_says_what_every_pump_would_ask
                }
                delivery {
                    a_node_claims_for_the_workers_that_it_has every_tenant_gets_its_share what_is_lent_is_counted_until_it_is_answered
                    of_one_key_one_comes_after_the_other they_come_in_the_order_in_which_they_were_written a_delivery_says_what_comes_before_it what_is_lent_comes_back_unless_it_is_answered
                    a_node_that_is_taken_over_loses_its_deliveries an_event_stays_while_it_may_be_waited_for
                    workers_are_put_changed_and_deleted types_of_events_are_put_changed_and_deleted queues_say_how_much_they_hold what_waits_is_counted_by_worker
                    of_events_that_are_held_back_the_last_is_delivered_once
                    a_pace_is_kept_by_claims_and_loans
                    no_more_are_lent_at_once_than_allowed
                    a_watermark_is_moved_by_who_knows_it
                }
                error {
                    what_is_added_to_a_group_is_summed a_commit_that_loses_records_nothing
                    groups_come_by_the_time_they_were_seen_last letters_are_counted_by_group
                }
                event {
                    an_event_is_told_to_every_wait_that_wants_it a_kept_event_is_told_to_whoever_begins_to_wait
                    kept_events_are_bounded_and_purged schedules_want_events_by_type
                    events_and_waits_of_one_batch_meet_in_its_order who_emitted_an_event_is_kept
                }
                feed {
                    events_come_in_the_order_of_their_commits events_of_one_instance_come_in_the_order_of_its_versions
                    a_cursor_outlives_what_it_stood_after a_cursor_of_another_time_is_refused
                    only_the_tenants_own_events_come
                }
                guard {
                    consume_answers_gone claimed_key_answers_duplicate existing_instance_answers_exists
                    open_business_key_is_unique other_version_answers_version created_twice_answers_exists
                    drops_and_retries_of_missing_rows_do_nothing signal_with_the_same_id_is_kept
                }
                key { keys_live_and_are_revoked key_ids_are_unique_over_tenants }
                list {
                    load_and_instance_show_what_was_written changes_leave_the_rest history_runs_upwards
                    pages_run_newest_first a_page_may_begin_at_an_id_that_is_not_there filters_select by_business_key definitions_by_semver
                    outbox_in_commit_order outbox_in_shares dead_letters_by_filter counts_add_up
                    an_instance_is_moved_in_both_tables children_are_listed_whatever_their_status
                }
                node {
                    strangers_are_fenced taken_over_node_lands_nothing take_over_frees_rows leaving_frees_rows
                    renewing_holds_off_take_over a_deployment_key_is_made_once
                    a_take_over_is_counted_and_leaving_is_not one_node_at_a_time_holds_a_lock leases_fenced_long_ago_are_forgotten
                }
                payload { bytes_are_kept_as_given large_payload empty_ids_are_refused }
                purge {
                    keys_of_workers_outlive_what_they_may_be_for an_instance_goes_with_all_its_rows what_is_needed_stays keys_of_starts_go_by_age
                    a_call_is_bounded_and_goes_on_from_its_mark a_large_instance_takes_several_calls
                    records_of_due_times_go_by_age
                }
                query {
                    instances_are_found_by_every_field a_query_is_paged_like_any_list
                    dead_letters_are_found_by_every_field deliveries_are_found_by_every_field
                    events_are_found_by_every_field instances_and_deliveries_are_found_by_trace_and_correlation
                }
                record {
                    a_record_is_guarded_by_version_and_parent lists_go_by_declared_keys
                    who_may_not_read_does_not_find lists_are_handed_down_under_guard
                    work_is_found_in_order_and_settled_under_guard kinds_and_groups_are_guarded
                    records_of_others_are_not_there
                }
                secret {
                    a_secret_is_replaced_whole_and_counts_its_versions
                    a_guarded_replacement_loses_to_a_newer_version a_secret_is_deleted_once_and_only_by_its_tenant
                }
                schedule {
                    schedules_are_guarded_by_version_and_found_when_due a_slot_lands_once
                    a_clock_moves_what_its_tenant_has_queued a_collection_is_guarded_by_its_version
                }
                standing {
                    nothing_of_a_parked_tenant_is_found a_degraded_tenant_starts_nothing_by_itself
                    a_standing_is_guarded limits_change_where_given open_instances_are_counted_up_to_a_bound
                    a_tenant_that_leaves_goes_with_all_its_rows
                }
                task { lifecycle_with_events lists_by_person_group_and_instance versions_guard_completion }
                tenant { same_ids_never_mix consuming_needs_the_tenant tenants_are_listed }
            ;)*
        }
    };
}

every_case! { sqlite_file sqlite_memory sqlite_inline postgres_direct postgres_pooled postgres_behind_pooler }
